//go:build linux

package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Holding is what a process and its descendants hold.
type Holding struct {
	PSS         int64 // bytes of memory; what processes share is split among them
	Descriptors int
}

// Holding reads what is held now.
func (p *Process) Holding() (Holding, error) {
	var h Holding
	pids, err := tree(p.PID())
	if err != nil {
		return h, fmt.Errorf("processes of %s: %w", p.name, err)
	}
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return h, fmt.Errorf("memory of %s: %w", p.name, err)
		}
		pss, err := parsePSS(string(text))
		if err != nil {
			return h, fmt.Errorf("memory of %s: %w", p.name, err)
		}
		descriptors, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			return h, fmt.Errorf("descriptors of %s: %w", p.name, err)
		}
		h.PSS += pss
		h.Descriptors += len(descriptors)
	}
	return h, nil
}

// parsePSS returns the bytes of the Pss line of smaps_rollup.
func parsePSS(text string) (int64, error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "Pss:" && fields[2] == "kB" {
			kb, err := strconv.ParseInt(fields[1], 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("smaps_rollup has no Pss")
}

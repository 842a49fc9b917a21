//go:build linux

package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Meter reads the CPU time that a process and its descendants use from when it
// was made.
type Meter struct {
	p       *Process
	pids    []int
	clock   time.Duration // of all CPU clocks
	threads time.Duration // summed over the threads that live
	slack   time.Duration
}

// slack is how far the two readings may be apart, beside what passes between
// them: schedstat of a running thread is as old as the last tick, at most 10 ms
// on each core.
const slack = 40 * time.Millisecond

// Meter begins to count.
func (p *Process) Meter() (*Meter, error) {
	m := &Meter{p: p, slack: slack}
	var err error
	if m.pids, err = tree(p.PID()); err != nil {
		return nil, fmt.Errorf("processes of %s: %w", p.name, err)
	}
	m.clock, m.threads, err = m.read()
	return m, err
}

// read reads both.
func (m *Meter) read() (clock, threads time.Duration, err error) {
	begun := time.Now()
	if clock, err = m.clocks(); err != nil {
		return 0, 0, err
	}
	for _, pid := range m.pids {
		t, err := threadsOf(pid)
		if err != nil {
			return 0, 0, fmt.Errorf("schedstat of %s: %w", m.p.name, err)
		}
		threads += t
	}
	m.slack += time.Since(begun) * time.Duration(runtime.NumCPU())
	return clock, threads, nil
}

func (m *Meter) clocks() (sum time.Duration, err error) {
	for _, pid := range m.pids {
		t, err := clockOf(pid)
		if err != nil {
			return 0, fmt.Errorf("CPU clock of %s: %w", m.p.name, err)
		}
		sum += t
	}
	return sum, nil
}

// Used returns what was used since the meter was made. It takes microseconds.
func (m *Meter) Used() (time.Duration, error) {
	now, err := m.clocks()
	return now - m.clock, err
}

// Verify returns an error if what the meter has shown so far means nothing: a
// process came or went, or the threads have used more than the clocks tell.
// Threads that ended have taken their schedstat along, so they may tell of less.
func (m *Meter) Verify() error {
	pids, err := tree(m.p.PID())
	if err != nil {
		return fmt.Errorf("processes of %s: %w", m.p.name, err)
	}
	if !slices.Equal(pids, m.pids) {
		return fmt.Errorf("the processes of %s were %v and are %v", m.p.name, m.pids, pids)
	}
	clock, threads, err := m.read()
	if err != nil {
		return err
	}
	return agree(clock-m.clock, threads-m.threads, m.slack)
}

func agree(clock, threads, slack time.Duration) error {
	if threads > clock+clock/50+slack {
		return fmt.Errorf("the CPU clock tells of %v, the threads of %v", clock, threads)
	}
	return nil
}

// tree returns a process and its descendants, in ascending order.
func tree(pid int) ([]int, error) {
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", all[i]))
		if err != nil || len(lists) == 0 {
			return nil, fmt.Errorf("process %d is gone", all[i])
		}
		for _, list := range lists {
			text, err := os.ReadFile(list)
			if gone(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			for field := range strings.FieldsSeq(string(text)) {
				child, err := strconv.Atoi(field)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", list, err)
				}
				all = append(all, child)
			}
		}
	}
	slices.Sort(all)
	return all, nil
}

// gone says whether a thread ended between being listed and being read.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
}

// clockOf reads the CPU clock of a process: what clock_getcpuclockid(3) names.
func clockOf(pid int) (time.Duration, error) {
	const scheduler = 2 // CPUCLOCK_SCHED of the kernel
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduler), &t); err != nil {
		return 0, err
	}
	return time.Duration(t.Nano()), nil
}

// threadsOf sums the schedstat of the threads of a process.
func threadsOf(pid int) (sum time.Duration, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if gone(err) {
			continue
		}
		if err != nil {
			return 0, err
		}
		ran, err := parseSchedstat(string(text))
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		sum += ran
	}
	return sum, nil
}

// parseSchedstat returns the first field: nanoseconds on a core.
func parseSchedstat(text string) (time.Duration, error) {
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return 0, fmt.Errorf("%q is not time, delay and turns", text)
	}
	ns, err := strconv.ParseInt(fields[0], 10, 64)
	return time.Duration(ns), err
}

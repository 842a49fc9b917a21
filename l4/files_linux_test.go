package l4_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/l4"
	"sluice/l4/l4test"
	"sluice/l4/resolve"
	"sluice/l4/session"
	"sluice/pool"
	"sluice/pool/balance"
)

// fewFiles in the environment makes the test binary a balancer that may open
// few descriptors: "engine files max_sessions backend ...".
const fewFiles = "SLUICE_TEST_FEW_FILES"

// report is what the balancer with few descriptors tells at its end.
type report struct {
	Frontend l4.Status
	Backends []pool.BackendStatus
	Limit    int64
	Causes   map[session.Cause]int
}

// childProcess returns what the process is to do if it is no test run.
func childProcess() func() {
	if args := os.Getenv(fewFiles); args != "" {
		return func() { runFewFiles(strings.Fields(args)) }
	}
	return nil
}

// runFewFiles is the balancer: it prints its address, and its report for each
// line of its input.
func runFewFiles(args []string) {
	files, _ := strconv.ParseUint(args[1], 10, 64)
	max, _ := strconv.Atoi(args[2])
	// The hard limit too: the runtime raises the soft one to it.
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: files, Max: files}); err != nil {
		panic(err)
	}
	strategy, _ := balance.ByName("round_robin", "")
	p := pool.New("p", pool.Config{Strategy: strategy, Policy: pool.Policy{MaxFailures: 1}, Backends: specs(args[3:]...)}, pool.Hooks{})
	engine, err := l4.NewEngine(args[0], 0)
	if err != nil {
		panic(err)
	}
	limit := engine.NewLimit(max)
	var mu sync.Mutex
	causes := map[session.Cause]int{}
	f := engine.NewFrontend(l4.Config{
		Name: "f", Pool: p, Names: resolve.New(nil, nil), Settings: defaults(), Limit: limit,
		Record: func(r session.Record) {
			mu.Lock()
			defer mu.Unlock()
			causes[r.Cause]++
		},
	})
	ln, err := engine.Listen(context.Background(), "127.0.0.1:0", 0)
	if err != nil {
		panic(err)
	}
	ln.Assign(f)
	go ln.Serve()
	fmt.Println(ln.Addr())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		mu.Lock()
		json.NewEncoder(os.Stdout).Encode(report{f.Status(), p.Status().Backends, limit.Max(), causes})
		mu.Unlock()
	}
}

// poor is a running balancer with few descriptors.
type poor struct {
	t    *testing.T
	addr string
	in   io.Writer
	out  *bufio.Reader
}

func startPoor(t *testing.T, args ...string) *poor {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fewFiles+"="+strings.Join(args, " "))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	p := &poor{t: t, in: in, out: bufio.NewReader(out)}
	addr, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	p.addr = strings.TrimSpace(addr)
	return p
}

func (p *poor) report() (r report) {
	p.t.Helper()
	io.WriteString(p.in, "\n")
	text, err := p.out.ReadString('\n')
	if err == nil {
		err = json.Unmarshal([]byte(text), &r)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// crowd connects n clients that stay, and returns how many were served and a
// func that lets them go.
func (p *poor) crowd(n int) (served int, leave func()) {
	var conns []net.Conn
	for range n {
		c, err := net.Dial("tcp", p.addr)
		if err != nil {
			continue // reset by now
		}
		conns = append(conns, c)
		c.SetReadDeadline(time.Now().Add(300 * time.Millisecond)) // some wait in the queue
		if _, err := io.ReadFull(c, make([]byte, 2)); err == nil {
			served++
		}
	}
	return served, func() {
		for _, c := range conns {
			c.Close()
		}
	}
}

// B037, B036: running out of descriptors is our fault and no backend's, and it
// passes.
func TestOutOfDescriptors(t *testing.T) {
	onEngines(t, func(t *testing.T, _ starter) {
		a, b := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B"))
		p := startPoor(t, engineOf(t), "40", "1000", a.Addr, b.Addr)
		served, leave := p.crowd(30)
		if served < 5 || served > 20 {
			t.Errorf("%d of 30 clients were served with 40 descriptors", served)
		}
		rep := p.report()
		if rep.Frontend.AcceptErrors == 0 && rep.Causes[session.LocalFault] == 0 {
			t.Errorf("descriptors never ran out: %+v", rep)
		}
		leave()
		eventually(t, "the clients are gone", func() bool { return p.report().Frontend.Active == 0 })
		eventually(t, "a new client is served", func() bool {
			served, leave := p.crowd(1)
			leave()
			return served == 1
		})
		for _, b := range p.report().Backends {
			if b.State != "up" || b.DialFailures != 0 || b.FailuresInRow != 0 {
				t.Errorf("backend %+v is held guilty", b)
			}
		}
	})
}

// The derived limit refuses clients before descriptors run out.
func TestDerivedLimit(t *testing.T) {
	onEngines(t, func(t *testing.T, _ starter) {
		p := startPoor(t, engineOf(t), "200", "0", l4test.Serve(t, l4test.Tag("A")).Addr)
		max := int(p.report().Limit)
		served, leave := p.crowd(max + 5)
		defer leave()
		rep := p.report()
		if max < 5 || served != max || rep.Frontend.AcceptErrors != 0 || rep.Frontend.RejectedBy["process_limit"] != 5 {
			t.Errorf("limit %d, served %d, status %+v", max, served, rep.Frontend)
		}
	})
}

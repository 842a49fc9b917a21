//go:build linux

// Package proc starts the processes of a measurement, ends them, and reads what
// they used from /proc.
//
// A process leads a process group of its own, so that a Ctrl-C at the terminal
// reaches the benchmark alone, which then ends all others; should the benchmark
// be killed, the kernel ends them. Only what a Group started is ever signalled.
//
// CPU time is that of all threads of the process and of all its descendants
// (nginx moves bytes in its workers). It is read twice: from the process's CPU
// clock, which is exact to the nanosecond and keeps the time of threads that
// have ended, and as the sum of the schedstat of the threads that live.
package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// patience is how long a process gets to end before it is killed. None has work
// to finish, so a second would do; chosen, not measured.
const patience = 5 * time.Second

// User is who a process runs as.
type User struct{ UID, GID uint32 }

// Command says what to start.
type Command struct {
	Path   string
	Args   []string
	Dir    string
	User   *User     // nil: the benchmark's own
	Stdout io.Writer // nil: together with standard error
	Log    string    // the file that gets what it prints
	Env    []string  // in addition to the benchmark's
}

// Process is a program that a Group has started.
type Process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and was waited for
	err  error         // of Wait; read it after done
}

// Group holds processes, so that none outlives it. Safe for concurrent use.
type Group struct {
	starts chan func() // to the thread that starts processes

	mu  sync.Mutex // guards all
	all []*Process
}

// NewGroup returns a group without a process.
func NewGroup() *Group {
	g := &Group{starts: make(chan func())}
	go g.starter()
	return g
}

// starter starts processes from one thread that lives as long as the benchmark:
// the kernel ends a child when the thread that started it is gone.
func (g *Group) starter() {
	runtime.LockOSThread()
	for start := range g.starts {
		start()
	}
}

// Start starts a process. It ends when End is called, of it or of the group.
func (g *Group) Start(c Command) (*Process, error) {
	name := filepath.Base(c.Path)
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", name, err)
	}
	defer log.Close()
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.Dir, log, log
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	cmd.Env = append(os.Environ(), c.Env...)
	// SIGTERM lets nginx end its workers, which outlive a killed master.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if c.User != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: c.User.UID, Gid: c.User.GID}
	}
	started := make(chan error)
	g.starts <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &Process{name: name, log: c.Log, cmd: cmd, done: make(chan struct{})}
	g.mu.Lock()
	g.all = append(g.all, p)
	g.mu.Unlock()
	go g.wait(p)
	return p, nil
}

// wait waits for the end of a process, and ends what has outlived it. Later its
// id may be somebody else's.
func (g *Group) wait(p *Process) {
	p.err = p.cmd.Wait()
	// An error means that nothing is left.
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
	g.mu.Lock()
	g.all = slices.DeleteFunc(g.all, func(other *Process) bool { return other == p })
	g.mu.Unlock()
	close(p.done)
}

// End ends all processes of the group that still run, the youngest first.
func (g *Group) End() error {
	g.mu.Lock()
	all := slices.Clone(g.all)
	g.mu.Unlock()
	var faults []error
	for i := len(all) - 1; i >= 0; i-- {
		faults = append(faults, all[i].End())
	}
	return errors.Join(faults...)
}

// PID returns the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end of the process or of ctx.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Alive returns an error with what the process printed last if it has ended.
func (p *Process) Alive() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s has ended (%v): %s", p.name, p.err, p.Printed(600))
	default:
		return nil
	}
}

// Printed returns the last bytes, at most that many, of what the process
// printed.
func (p *Process) Printed(most int) string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// End ends the process and waits until it is gone. One that stays too long is
// killed with all of its group, and reported. A second End does nothing.
func (p *Process) End() error {
	select {
	case <-p.done:
		return nil
	default:
	}
	// An error means that it ends at this moment.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-time.After(patience):
	}
	if err := syscall.Kill(-p.PID(), syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.done
	return fmt.Errorf("%s did not end within %v of SIGTERM", p.name, patience)
}

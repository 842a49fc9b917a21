package epoll

import (
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// MaxPipes is how many pipes a process has at most, of two descriptors each. An ordinary user gets
	// 64 of 1 MiB (fs.pipe-user-pages-soft) and then such of 8 KiB; other
	// programs of that user need some too.
	MaxPipes = 48

	// pipeWanted is what an ordinary user may set (fs.pipe-max-size), and
	// pipeNeeded what a pipe has by default. With 8 KiB, splicing took 404 ms a
	// GB where reading and writing took 134.
	pipeWanted = 1 << 20
	pipeNeeded = 64 << 10

	// pipesKept are kept by one loop for the next that asks.
	pipesKept = 4

	// pipePause is how long a loop does without new pipes after it got none.
	pipePause = time.Second
)

// PipeBudget counts the pipes of all loops of a process. Safe for concurrent
// use.
type PipeBudget struct {
	taken atomic.Int32
}

// NewPipeBudget returns a budget of 48 pipes.
func NewPipeBudget() *PipeBudget { return new(PipeBudget) }

// take reserves a pipe, if one is left.
func (b *PipeBudget) take() bool {
	if b.taken.Add(1) <= MaxPipes {
		return true
	}
	b.give()
	return false
}

func (b *PipeBudget) give() { b.taken.Add(-1) }

// scarce reports whether more than half of the budget is taken.
func (b *PipeBudget) scarce() bool { return b.taken.Load() > MaxPipes/2 }

// Pipe is two descriptors to splice through, neither of which blocks. Who took
// it counts in Held what is in it, bytes, and sets nothing else.
type Pipe struct {
	R, W int
	Size int // bytes, 64 KiB at least; of small pieces less fits
	Held int
}

// Pipes is a loop's stock of pipes. Not safe for concurrent use.
type Pipes struct {
	kernel *Kernel
	budget *PipeBudget
	free   []*Pipe
	paused time.Time // no new ones before
}

// NewPipes returns an empty stock. Its pipes count in b, those it keeps too.
func NewPipes(k *Kernel, b *PipeBudget) *Pipes { return &Pipes{kernel: k, budget: b} }

// Take returns an empty pipe, for the caller to Give. It is nil if there is none
// to be had: the budget is spent, the process is out of descriptors, or the
// kernel gives only small ones. Then the bytes go by Recv and Send.
func (s *Pipes) Take() *Pipe {
	if last := len(s.free) - 1; last >= 0 {
		p := s.free[last]
		s.free[last] = nil
		s.free = s.free[:last]
		return p
	}
	if !s.paused.IsZero() && time.Now().Before(s.paused) || !s.budget.take() {
		return nil
	}
	s.paused = time.Time{}
	p := s.open()
	if p == nil {
		s.budget.give()
		s.paused = time.Now().Add(pipePause)
	}
	return p
}

// open makes a pipe that is worth splicing through, nil if there is none.
func (s *Pipes) open() *Pipe {
	k := s.kernel
	r, w, errno := 0, 0, syscall.EINTR
	for errno == syscall.EINTR {
		r, w, errno = k.calls.Pipe()
	}
	if errno != 0 {
		return nil
	}
	p := &Pipe{R: r, W: w, Size: s.grow(w)}
	if p.Size < pipeNeeded {
		s.close(p)
		return nil
	}
	return p
}

// grow asks for the size that is wanted and returns what the pipe has then.
func (s *Pipes) grow(fd int) int {
	size, errno := 0, syscall.EINTR
	for errno == syscall.EINTR {
		size, errno = s.kernel.calls.SetPipeSize(fd, pipeWanted)
	}
	if errno == 0 {
		return size
	}
	errno = syscall.EINTR
	for errno == syscall.EINTR {
		size, errno = s.kernel.calls.PipeSize(fd)
	}
	return size
}

// Give takes a pipe back. It is kept if it is empty, if few are kept already and
// if the budget is not scarce; else it is closed, with what is in it.
func (s *Pipes) Give(p *Pipe) {
	if p.Held == 0 && len(s.free) < pipesKept && !s.budget.scarce() {
		s.free = append(s.free, p)
		return
	}
	s.close(p)
	s.budget.give()
}

// Close closes the pipes that are kept. Those that are taken are still given
// back, and should be given before.
func (s *Pipes) Close() {
	for _, p := range s.free {
		s.close(p)
		s.budget.give()
	}
	s.free = nil
}

func (s *Pipes) close(p *Pipe) {
	s.kernel.Close(p.R)
	s.kernel.Close(p.W)
}

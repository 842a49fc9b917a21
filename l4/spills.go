package l4

// spillsKept is how many free spills a loop keeps for the next that asks.
// Chosen.
const spillsKept = 16

// spill holds bytes that were read and could not be sent yet.
type spill struct {
	memory []byte
	data   []byte // of memory, still to be sent
	greets int    // how much of the front of data is no payload
}

// spills is a loop's stock of them, each as large as its reads. The zero value
// is empty.
type spills struct {
	free []*spill
}

// hold returns a spill with a copy of data, at most size bytes.
func (s *spills) hold(data []byte, size int) *spill {
	c := &spill{}
	if last := len(s.free) - 1; last >= 0 {
		c, s.free = s.free[last], s.free[:last]
	} else {
		c.memory = make([]byte, size)
	}
	c.data = c.memory[:copy(c.memory, data)]
	return c
}

// owned returns a spill of bytes that have memory of their own.
func owned(data []byte) *spill { return &spill{data: data} }

// give takes back a spill that is not needed any more.
func (s *spills) give(c *spill) {
	if c.memory != nil && len(s.free) < spillsKept {
		s.free = append(s.free, c)
	}
}

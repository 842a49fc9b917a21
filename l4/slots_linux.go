package l4

import (
	"sluice/l4/epoll"
	"sluice/l4/session"
)

// slotsInBlock is how many sessions are allocated at once: one by one they would
// be rounded up to the sizes that Go allocates. Chosen.
const slotsInBlock = 64

// slots holds the sessions of a loop. A slot is used again; its generation tells
// who is in it now. The memory of a peak stays. The zero value is empty.
type slots struct {
	blocks []*[slotsInBlock]duplex
	free   []int32
}

// take returns a free slot.
func (s *slots) take() *duplex {
	if len(s.free) == 0 {
		s.grow()
	}
	last := len(s.free) - 1
	d := s.at(s.free[last])
	s.free = s.free[:last]
	return d
}

func (s *slots) grow() {
	block := new([slotsInBlock]duplex)
	first := int32(len(s.blocks) * slotsInBlock)
	s.blocks = append(s.blocks, block)
	for i := len(block) - 1; i >= 0; i-- {
		block[i].timer.Key = first + int32(i)
		s.free = append(s.free, first+int32(i))
	}
}

// put frees d: from now on its tokens find nothing.
func (s *slots) put(d *duplex) {
	slot := d.timer.Key
	*d = duplex{gen: d.gen + 1}
	d.timer.Key = slot
	s.free = append(s.free, slot)
}

func (s *slots) at(slot int32) *duplex {
	return &s.blocks[slot/slotsInBlock][slot%slotsInBlock]
}

// find returns the session that t was made for and its side; nil if it is over.
func (s *slots) find(t epoll.Token) (*duplex, session.Side) {
	d := s.at(t.Slot / 2)
	if d.gen != t.Gen || d.phase == free {
		return nil, 0
	}
	return d, session.Side(t.Slot % 2)
}

// nth returns a slot, free or not; nil if there are not so many.
func (s *slots) nth(i int) *duplex {
	if i >= len(s.blocks)*slotsInBlock {
		return nil
	}
	return s.at(int32(i))
}

package l4

// batch is what one turn of a loop works off, one after the other; a panic in
// between loses none of the rest. Its memory is used again.
type batch[T any] struct {
	items []T
	next  int
}

// use makes items the batch, and returns the memory of the last, for the next.
func (b *batch[T]) use(items []T) (spare []T) {
	spare = b.items[:0]
	clear(b.items)
	b.items, b.next = items, 0
	return spare
}

// take returns the next item; ok is false at the end.
func (b *batch[T]) take() (item T, ok bool) {
	if b.next == len(b.items) {
		return item, false
	}
	b.next++
	return b.items[b.next-1], true
}

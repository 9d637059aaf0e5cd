package waitq

// A List is an order: first come, first served. The zero List is empty.
type List[W any] struct {
	first, last *Place[W]
	length      int
}

// A Place is an element of a List. It is part of the struct that it orders, so
// that a List allocates nothing.
type Place[W any] struct {
	Value      W
	list       *List[W] // nil if it is in none
	prev, next *Place[W]
}

// Len returns the number of Places.
func (l *List[W]) Len() int { return l.length }

// First returns the first Place, nil if there is none.
func (l *List[W]) First() *Place[W] { return l.first }

// Last returns the last Place, nil if there is none.
func (l *List[W]) Last() *Place[W] { return l.last }

// Next returns the Place behind p, nil if there is none.
func (p *Place[W]) Next() *Place[W] { return p.next }

// Prev returns the Place before p, nil if there is none.
func (p *Place[W]) Prev() *Place[W] { return p.prev }

// Push adds p at the end.
func (l *List[W]) Push(p *Place[W]) { l.Insert(p, l.last) }

// Insert adds p behind another Place; before all if that is nil.
func (l *List[W]) Insert(p, behind *Place[W]) {
	p.list, p.prev, p.next = l, behind, l.first
	if behind != nil {
		p.next = behind.next
	}
	*l.forward(p.prev) = p
	*l.backward(p.next) = p
	l.length++
}

// Remove takes p out of the List. It reports false if p is not in it.
func (l *List[W]) Remove(p *Place[W]) bool {
	if p.list != l {
		return false
	}
	*l.forward(p.prev) = p.next
	*l.backward(p.next) = p.prev
	p.list, p.prev, p.next = nil, nil, nil
	l.length--
	return true
}

// forward returns the link from p to the Place behind it, or from the List to
// the first one if p is nil.
func (l *List[W]) forward(p *Place[W]) **Place[W] {
	if p == nil {
		return &l.first
	}
	return &p.next
}

// backward returns the link from p to the Place before it, or from the List to
// the last one if p is nil.
func (l *List[W]) backward(p *Place[W]) **Place[W] {
	if p == nil {
		return &l.last
	}
	return &p.prev
}

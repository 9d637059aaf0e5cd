package flight

const MaxSpares = maxSpares

// Listed returns how many runs can be joined.
func Listed[K comparable, V any](g *Group[K, V]) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.runs)
}

// Spares returns how many runs wait to be used again.
func Spares[K comparable, V any](g *Group[K, V]) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for r := g.spare; r != nil; r = r.next {
		n++
	}
	return n
}

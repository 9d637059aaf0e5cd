// Package copies copies a Permit, which vet reports, and moves one, which is right.
package copies

import "github.com/weir-go/weir"

func copied(p *weir.Permit) weir.Permit {
	twin := *p
	return twin.Move()
}

func moved(p *weir.Permit) (held []weir.Permit) {
	q := p.Move()
	return append(held, q.Move())
}

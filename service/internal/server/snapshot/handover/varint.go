package handover

import (
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/weir-go/weir/service/internal/server/grant"
)

// A writer is a chunk without its seal.
type writer []byte

func (w *writer) number(n uint64) { *w = binary.AppendUvarint(*w, n) }

func (w *writer) bool(b bool) {
	if b {
		w.number(1)
	} else {
		w.number(0)
	}
}

func (w *writer) text(s string) {
	w.number(uint64(len(s)))
	*w = append(*w, s...)
}

// dense is the number of settled grants from which on a page has one bit for each grant.
const dense = 2000

// page appends a page: its settled grants as the distances between them or, if there are many,
// its bits.
func (w *writer) page(p *grant.Page) {
	n := 0
	for _, word := range p.Settled {
		n += bits.OnesCount64(word)
	}
	w.number(p.At)
	w.number(uint64(min(n, dense)))
	if n >= dense {
		for _, word := range p.Settled {
			*w = binary.LittleEndian.AppendUint64(*w, word)
		}
		return
	}
	next := 0
	for i, word := range p.Settled {
		for ; word != 0; word &= word - 1 {
			at := 64*i + bits.TrailingZeros64(word)
			w.number(uint64(at - next))
			next = at + 1
		}
	}
}

// A reader reads the body of a chunk. After an error it is bad, and returns zero values.
type reader struct {
	rest []byte
	bad  bool
}

// number reads a number that must not exceed most.
func (r *reader) number(most uint64) uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > most {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) time() time.Duration { return time.Duration(r.number(uint64(maxTime))) }

// bytes reads n bytes.
func (r *reader) bytes(n int) []byte {
	if n > len(r.rest) {
		r.bad, r.rest = true, nil
		return make([]byte, min(n, 16))
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) text() string { return string(r.bytes(int(r.number(uint64(len(r.rest)))))) }

func (r *reader) page() grant.Page {
	p := grant.Page{At: r.number(1<<64 - 1), Settled: make([]uint64, grant.PageWords)}
	n := r.number(dense)
	if n == dense {
		b := r.bytes(8 * len(p.Settled))
		for i := range p.Settled {
			if r.bad {
				break
			}
			p.Settled[i] = binary.LittleEndian.Uint64(b[8*i:])
		}
		return p
	}
	for next := uint64(0); n > 0 && !r.bad; n-- {
		at := next + r.number(uint64(64*len(p.Settled))-1)
		if at >= uint64(64*len(p.Settled)) {
			r.bad = true
			break
		}
		p.Settled[at/64] |= 1 << (at % 64)
		next = at + 1
	}
	return p
}

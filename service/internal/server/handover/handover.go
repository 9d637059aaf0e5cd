// Package handover is the format in which a member of a fleet hands the state of keys over to
// another one.
//
// A chunk begins with a text that names the format and its version, the ID of the chunk, and
// its kind. A body follows, and a seal of all under a secret of the fleet. Numbers in a body are
// varints, and texts have their length before them. A reader ignores chunks of kinds that it does
// not know: more state is a new kind. The release f6d7ae14 refuses them, and with them the
// handover.
package handover

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/grant"
	"github.com/weir-go/weir/service/internal/server/lease"
)

const magic = "weirmov1"

// MaxSize is the size of the largest chunk, in bytes. A body is ended once it has fullBody.
const (
	MaxSize  = 256 << 10
	fullBody = 64 << 10
)

// MaxKey is the length of the longest key in a chunk.
const MaxKey = MaxSize / 2

// Kinds of bodies.
const (
	counts = 'c'
	own    = 'o'
	leases = 'l'
	limits = 'a'
	grants = 'g'
)

// An ID tells chunks apart: the same chunk is not counted twice.
type ID [16]byte

// A Sender gives chunks their IDs. It is safe for concurrent use.
type Sender struct {
	secret  siphash.Key
	process [8]byte
	chunks  atomic.Uint64
}

// NewSender returns a Sender with unique IDs. Members of a fleet share the secret.
func NewSender(secret siphash.Key) *Sender {
	s := &Sender{secret: secret}
	rand.Read(s.process[:]) // never fails
	return s
}

func (s *Sender) begin(kind byte) writer {
	b := append(make([]byte, 0, 1<<10), magic...)
	b = append(b, s.process[:]...)
	b = binary.BigEndian.AppendUint64(b, s.chunks.Add(1))
	return append(b, kind)
}

// A Chunk is a decoded chunk. One of its parts is set; none if a later version has sent it.
type Chunk struct {
	ID     ID
	Counts *Counts
	Own    []byte // of buckets of quotas that requests brought: see quota.Requested
	Leases *Leases
	Limits []Limit
	Grants []grant.Page
}

// Counts are counts of the keys of a rule, or of its candidate.
type Counts struct {
	Rule      string
	Candidate bool
	Kind      string // see quota.Buckets
	Part      []byte
}

// Leases are leases with the rules that they are held under.
type Leases struct {
	Token uint64 // the last fencing token of the sender
	Rules []Rule
	Held  []lease.SavedLease // Under has places in Rules, and Until is the time left
}

// A Rule is a rule of Leases.
type Rule struct {
	Name string
	Per  config.Per
}

// A Limit is a limit that a rule has found.
type Limit struct {
	Rule string
	lease.SavedLimit
}

// Counts returns a chunk of counts.
func (s *Sender) Counts(c *Counts) []byte {
	w := s.begin(counts)
	w.text(c.Rule)
	w.bool(c.Candidate)
	w.text(c.Kind)
	return s.seal(append(w, c.Part...))
}

// Own returns a chunk of buckets of quotas that requests brought.
func (s *Sender) Own(part []byte) []byte { return s.seal(append(s.begin(own), part...)) }

// Leases passes chunks of leases to emit: at least one, which has the token. It leaves out
// leases of longer keys than MaxKey.
func (s *Sender) Leases(l *Leases, emit func(chunk []byte) error) error {
	for held := l.Held; ; {
		w := s.begin(leases)
		w.number(l.Token)
		for ; len(held) > 0 && len(w) < fullBody; held = held[1:] {
			if h := &held[0]; len(h.Key) <= MaxKey {
				w = append(w, h.ID[:]...)
				w.text(h.Key)
				for _, n := range []uint64{uint64(h.N), uint64(h.Until), uint64(h.Terms.TTL), uint64(h.Terms.MaxTTL), uint64(len(h.Under))} {
					w.number(n)
				}
				for _, place := range h.Under {
					w.text(l.Rules[place].Name)
					w.text(string(l.Rules[place].Per))
				}
			}
		}
		if err := emit(s.seal(w)); err != nil || len(held) == 0 {
			return err
		}
	}
}

// Limits passes chunks of limits to emit.
func (s *Sender) Limits(all []Limit, emit func(chunk []byte) error) error {
	for len(all) > 0 {
		w := s.begin(limits)
		for ; len(all) > 0 && len(w) < fullBody; all = all[1:] {
			if l := &all[0]; len(l.Bucket) <= MaxKey {
				w.text(l.Rule)
				w.text(l.Bucket)
				w.number(uint64(l.Limit))
				w.number(uint64(l.Usual))
			}
		}
		if err := emit(s.seal(w)); err != nil {
			return err
		}
	}
	return nil
}

// Grants passes chunks of pages to emit.
func (s *Sender) Grants(pages func(yield func(grant.Page) bool), emit func(chunk []byte) error) (err error) {
	w, n := s.begin(grants), 0
	for p := range pages {
		w.page(&p)
		if n++; n < maxPages && len(w) < fullBody {
			continue
		}
		if err = emit(s.seal(w)); err != nil {
			return err
		}
		w, n = s.begin(grants), 0
	}
	if n > 0 {
		err = emit(s.seal(w))
	}
	return err
}

// seal appends the seal.
func (s *Sender) seal(w writer) []byte { return binary.LittleEndian.AppendUint64(w, s.secret.Bytes(w)) }

// ErrInvalid is the error of Decode.
var ErrInvalid = errors.New("it is not a valid chunk of this fleet")

// Decode reads a chunk of any Sender with the same secret. Parts of the Chunk are parts of b.
func (s *Sender) Decode(b []byte) (*Chunk, error) {
	const head = len(magic) + len(ID{}) + 1
	n := len(b) - 8
	switch {
	case len(b) > MaxSize || n < head:
		return nil, fmt.Errorf("%w: it has %d bytes", ErrInvalid, len(b))
	case string(b[:len(magic)]) != magic:
		return nil, fmt.Errorf("%w: it begins with %q: want %q", ErrInvalid, b[:len(magic)], magic)
	case binary.LittleEndian.Uint64(b[n:]) != s.secret.Bytes(b[:n]):
		return nil, fmt.Errorf("%w: its seal is wrong", ErrInvalid)
	}
	c := &Chunk{ID: ID(b[len(magic):])}
	r := reader{rest: b[head:n]}
	switch b[head-1] {
	case counts:
		c.Counts = &Counts{Rule: r.text(), Candidate: r.number(1) == 1, Kind: r.text()}
		c.Counts.Part, r.rest = r.rest, nil
	case own:
		c.Own, r.rest = r.rest, nil
	case leases:
		c.Leases = r.leases()
	case limits:
		for len(r.rest) > 0 && !r.bad {
			c.Limits = append(c.Limits, Limit{r.text(), lease.SavedLimit{Bucket: r.text(), Limit: int(r.number(maxNumber)), Usual: r.time()}})
		}
	case grants:
		for len(r.rest) > 0 && !r.bad {
			c.Grants = append(c.Grants, r.page())
			r.bad = r.bad || len(c.Grants) > maxPages
		}
	default: // state that later versions have, which is lost here
		r.rest = nil
	}
	if r.bad || len(r.rest) > 0 {
		return nil, fmt.Errorf("%w: its body is malformed", ErrInvalid)
	}
	return c, nil
}

func (r *reader) leases() *Leases {
	l, places := &Leases{Token: r.number(maxToken)}, map[Rule]int{}
	for len(r.rest) > 0 && !r.bad {
		h := lease.SavedLease{ID: lease.ID(r.bytes(len(lease.ID{}))), Key: r.text(), N: int(r.number(maxNumber)), Until: r.time()}
		h.Terms.TTL, h.Terms.MaxTTL, h.Token = r.time(), r.time(), binary.BigEndian.Uint64(h.ID[:])
		for n := r.number(uint64(len(r.rest))); n > 0 && !r.bad; n-- {
			rule := Rule{r.text(), config.Per(r.text())}
			place, known := places[rule]
			if !known {
				place = len(l.Rules)
				l.Rules, places[rule] = append(l.Rules, rule), place
			}
			r.bad = r.bad || slices.Contains(h.Under, place)
			h.Under = append(h.Under, place)
		}
		r.bad = r.bad || h.N < 1 || h.Terms.TTL <= 0 || h.Terms.TTL > h.Terms.MaxTTL || h.Token > maxToken
		l.Held = append(l.Held, h)
	}
	return l
}

// Bounds of numbers.
const (
	maxNumber = 1<<31 - 1
	maxToken  = 1<<62 - 1
	maxPages  = 1 << 10 // in a chunk, each of which takes 4 KiB of memory
	maxTime   = time.Duration(1<<63-1) / 8
)

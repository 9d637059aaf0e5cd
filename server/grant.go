package server

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/siphash"
)

// A Grant is what a request was given. The zero Grant is nothing.
type Grant struct{ n int }

// GrantLife is how long a grant can be settled.
const GrantLife = time.Hour

// maxSettled bounds the grants that are remembered as settled.
const maxSettled = 1 << 20

// Errors of Settle.
var (
	ErrNoGrant = errors.New("there is no such grant of this key, or it has been settled")
	ErrBusy    = errors.New("too many grants have been settled of late")
)

// grants know which ids are true and not settled yet, without a note of each:
// an id says when, how much, and for which key, under a seal. Only those that
// were settled are noted, for as long as they could be again.
type grants struct {
	key siphash.Key
	seq atomic.Uint64

	mu      sync.Mutex             // guards what follows
	settled [2]map[uint64]struct{} // in this GrantLife, and in the last
	turned  time.Duration
}

func (g *grants) init() {
	g.key = siphash.New()
	g.settled[0] = map[uint64]struct{}{}
}

// seqBits is how many bits of an id tell the grants of a millisecond apart.
const seqBits = 20

// AppendID appends an id for a Grant of a key, which has just been given: a UUID
// of version 8, followed by a hyphen and the cost if that is not 1. A Grant
// should be given one id only: each can be settled.
func (s *Server) AppendID(b []byte, g Grant, key string) []byte {
	stamp := uint64(s.now()/time.Millisecond)<<seqBits | s.grants.seq.Add(1)&(1<<seqBits-1)
	return appendID(b, stamp, s.grants.seal(stamp, g.n, key), g.n)
}

// appendID writes 60 bits of the stamp and 62 of the seal into a UUID.
func appendID(b []byte, stamp, seal uint64, n int) []byte {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:], stamp<<4&^0xffff|8<<12|stamp&0xfff)
	binary.BigEndian.PutUint64(id[8:], 1<<63|seal>>2)
	b = hex.AppendEncode(b, id[:4])
	for _, part := range [][]byte{id[4:6], id[6:8], id[8:10], id[10:]} {
		b = hex.AppendEncode(append(b, '-'), part)
	}
	if n != 1 {
		b = strconv.AppendInt(append(b, '-'), int64(n), 10)
	}
	return b
}

// parseID reads what appendID writes, in capitals too.
func parseID(id string) (stamp, seal uint64, n int, ok bool) {
	n = 1
	if len(id) > 36 {
		var err error
		if n, err = strconv.Atoi(id[37:]); err != nil || id[36] != '-' || n < 1 || n == 1 || id[37] == '+' || id[37] == '0' {
			return 0, 0, 0, false
		}
		id = id[:36]
	}
	if len(id) != 36 || id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' {
		return 0, 0, 0, false
	}
	b, err := hex.DecodeString(id[:8] + id[9:13] + id[14:18] + id[19:23] + id[24:])
	if err != nil {
		return 0, 0, 0, false
	}
	first, second := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	if first>>12&0xf != 8 || second>>62 != 2 {
		return 0, 0, 0, false
	}
	return first>>16<<12 | first&0xfff, second << 2, n, true
}

// seal is what only this Server can put on an id: SipHash of all that it says.
// The lowest two bits are left out.
func (g *grants) seal(stamp uint64, n int, key string) uint64 {
	var buf [256]byte
	b := binary.LittleEndian.AppendUint64(buf[:0], stamp)
	b = binary.LittleEndian.AppendUint64(b, uint64(n))
	return g.key.Bytes(append(b, key...)) &^ 3
}

// settle takes note that a grant is settled; once.
func (g *grants) settle(stamp uint64, now time.Duration) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now-g.turned > GrantLife {
		g.settled[0], g.settled[1], g.turned = map[uint64]struct{}{}, g.settled[0], now
	}
	_, again := g.settled[0][stamp]
	if _, before := g.settled[1][stamp]; again || before {
		return ErrNoGrant
	}
	if len(g.settled[0])+len(g.settled[1]) >= maxSettled {
		return ErrBusy
	}
	g.settled[0][stamp] = struct{}{}
	return nil
}

// Settled is what became of a grant that was settled.
type Settled struct {
	Was     int // tokens that were taken
	Charged int // tokens that are charged: as many as was said, unless that is beyond the debt allowed, or too late to come back
}

// Settle tells the true cost of what a grant of the key was for, once and
// within GrantLife: what was too much comes back, if its bucket would not be
// full again without it; what was too little is charged, into debt as far as
// the rule allows. With n = 0 all comes back. The error is ErrNoGrant if the id
// is not that of a live grant of the key; ErrBusy if it cannot be made sure that
// it is settled only once. It panics if n < 0.
func (s *Server) Settle(key, id string, n int) (Settled, error) {
	if n < 0 {
		panic("server: negative cost")
	}
	stamp, seal, was, ok := parseID(id)
	now, at := s.now(), time.Duration(stamp>>seqBits)*time.Millisecond
	if !ok || seal != s.grants.seal(stamp, was, key) || now-at > GrantLife {
		return Settled{}, ErrNoGrant
	}
	if err := s.grants.settle(stamp, now); err != nil {
		return Settled{}, err
	}
	_, rules, _ := s.keys.find(key, s.rules.Load())
	done, asked := Settled{Was: was, Charged: n}, false
	for _, r := range rules {
		if !r.Quoted() || r.live.since > at {
			continue // it has given nothing
		}
		charged := r.charge(key, s.epoch.Add(at+time.Millisecond), was, n) // it was given before the next one
		if !asked || charged > done.Charged {
			done.Charged, asked = charged, true
		}
	}
	return done, nil
}

// charge settles with one rule: into no more debt than it allows.
func (r *Rule) charge(key string, at time.Time, was, n int) int {
	if n > was {
		debt := r.Limit()
		if r.MaxDebt != nil {
			debt = *r.MaxDebt
		}
		room := debt + r.Limit() - r.live.buckets.used(r.bucket(key))
		n = min(n, was+max(room, 0))
	}
	return r.settle(key, at, was, n)
}

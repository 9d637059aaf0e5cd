package recording

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/stripe"
)

// DefaultRecords is Config.Records if that is zero: 2 MiB.
const DefaultRecords = 1 << 16

// MaxRecords is the largest Config.Records: 2 GiB.
const MaxRecords = 1 << 26

// MaxClasses and MaxTenants bound the numbers that a Recorder gives out. Further classes and tenants
// share the number Others.
const (
	MaxClasses = 1000
	MaxTenants = 10_000

	Others = 65535
)

// Config configures a Recorder.
type Config struct {
	// Records is how many records are kept, of 32 bytes each. When more come, the oldest are overwritten.
	// If zero, DefaultRecords.
	Records int
}

// blockRecords is the number of records in a block: 2 KiB.
const blockRecords = 64

// A block has records of one stripe. Goroutines take the mutex of the Recorder once for each block.
type block struct {
	n       int
	records [blockRecords]packed
}

// A stripeBlock is the block that some of the goroutines fill.
type stripeBlock struct {
	mu    sync.Mutex
	block *block
	_     [48]byte // so that no two stripes share a cache line
}

// A Recorder collects records in bounded memory. It is safe for concurrent use. It starts no
// goroutine.
type Recorder struct {
	epoch    time.Time
	stripes  []stripeBlock
	classes  numbers
	tenants  numbers
	permits  sync.Pool // of *heldPermit
	draining *Tail     // of Drain

	mu     sync.Mutex // guards what follows; taken with that of a stripe held
	full   []*block   // a ring: the block i is at i % len(full)
	oldest uint64     // the first block that is kept
	next   uint64     // after the last one
	gone   uint64     // records that have been overwritten
}

// New returns a Recorder, or an error that names the field with a bad value.
func New(cfg Config) (*Recorder, error) {
	if cfg.Records < 0 || cfg.Records > MaxRecords {
		return nil, fmt.Errorf("recording: Records = %d: must be in [0, %d]", cfg.Records, MaxRecords)
	}
	blocks := (cmp.Or(cfg.Records, DefaultRecords) + blockRecords - 1) / blockRecords
	r := &Recorder{
		epoch:   time.Now(),
		stripes: make([]stripeBlock, 1<<bits.Len(uint(4*runtime.GOMAXPROCS(0)-1))),
		classes: numbers{most: MaxClasses}, tenants: numbers{most: MaxTenants},
	}
	r.permits.New = func() any {
		h := &heldPermit{}
		h.self = h
		return h
	}
	r.draining = &Tail{recorder: r, begun: true}
	r.full = make([]*block, blocks+len(r.stripes)) // the blocks of the stripes come on top when they are read
	memory := make([]block, len(r.full)+len(r.stripes))
	for i := range r.stripes {
		r.stripes[i].block = &memory[i]
	}
	for i := range r.full {
		r.full[i] = &memory[len(r.stripes)+i]
	}
	return r, nil
}

// Epoch returns the instant at which New was called.
func (r *Recorder) Epoch() time.Time { return r.epoch }

// Now returns the time since the epoch.
func (r *Recorder) Now() time.Duration { return time.Since(r.epoch) }

// Class returns the number of a class, for Record.Class: 0 of "".
func (r *Recorder) Class(name string) uint16 { return r.classes.get(name) }

// Tenant returns the number of a tenant, for Record.Tenant: 0 of "".
func (r *Recorder) Tenant(name string) uint16 { return r.tenants.get(name) }

// Add adds a record. It does not allocate and does not block on I/O.
func (r *Recorder) Add(rec *Record) {
	s := &r.stripes[stripe.Pick(len(r.stripes))]
	s.mu.Lock()
	b := s.block
	b.records[b.n].pack(rec)
	if b.n++; b.n == blockRecords {
		s.block = r.swap(b)
	}
	s.mu.Unlock()
}

// swap takes a block with records, and returns an empty one. If the latest block has room for them, they go there.
func (r *Recorder) swap(b *block) *block {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next > r.oldest {
		if latest := r.full[(r.next-1)%uint64(len(r.full))]; latest.n+b.n <= blockRecords {
			latest.n += copy(latest.records[latest.n:], b.records[:b.n])
			b.n = 0
			return b
		}
	}
	at := &r.full[r.next%uint64(len(r.full))]
	empty := *at
	if r.next-r.oldest == uint64(len(r.full)) {
		r.oldest++
		r.gone += uint64(empty.n)
	}
	*at = b
	r.next++
	empty.n = 0
	return empty
}

// Lost returns how many records have been overwritten before Drain has read them, or were in a Drain that
// failed.
func (r *Recorder) Lost() uint64 { return r.draining.Lost() }

// Drain writes the records that it has not written before, the names of their classes, and how many
// were lost, and flushes w. After an error of w, the records that it was to get are gone.
func (r *Recorder) Drain(w *Writer) error { return r.draining.Copy(w, math.MinInt64) }

// numbers gives names numbers from 1 on. A look-up takes no lock.
type numbers struct {
	most  int
	known atomic.Pointer[map[string]uint16]
	mu    sync.Mutex // serializes additions
}

func (n *numbers) all() map[string]uint16 {
	if known := n.known.Load(); known != nil {
		return *known
	}
	return nil
}

func (n *numbers) get(name string) uint16 {
	if name == "" {
		return 0
	}
	known := n.all()
	if number := known[name]; number != 0 {
		return number
	}
	if len(known) >= n.most {
		return Others
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if number := n.all()[name]; number != 0 {
		return number
	}
	if len(n.all()) >= n.most {
		return Others
	}
	all := maps.Clone(n.all())
	if all == nil {
		all = map[string]uint16{}
	}
	number := uint16(len(all) + 1)
	all[strings.Clone(name)] = number // name may be part of a large string
	n.known.Store(&all)
	return number
}

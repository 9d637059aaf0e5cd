package keyedtable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/pagetable"
	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/internal/window"
)

// A head begins a snapshot. Segments follow, of which only the last has no words, and a
// CRC-32 of all. The lowest byte of a number comes first.
type head struct {
	Magic [8]byte // the name and the version of the format
	Keys  byte    // kind of keys
	Seed  siphash.Key
}

// A segment has the slots of some keys, as in a page. A key can be in several segments.
type segment struct {
	Law   byte          // what values mean
	Scale uint64        // of buckets: the burst of tokensOf; of windows: their Period
	Now   time.Duration // when the slots were copied
	Words uint32        // of the slots, which follow
}

var magic = [8]byte([]byte("weirkey4"))

// Laws of a segment.
const (
	bucketLaw  = 'b'
	fixedLaw   = 'f'
	slidingLaw = 's'
	datedLaw   = 'd'
)

// A segment ends after this number of pages, or of words.
const (
	segmentPages = 64
	segmentWords = 1 << 13
)

var (
	errUnstable = errors.New("keyed: no snapshots of this type of keys: their hash differs in every process " +
		"(use strings, integers, arrays of bytes or netip)")
	errOtherLaw = errors.New("it has buckets instead of windows, or windows instead of buckets")
	errReplaced = errors.New("Restore has replaced the table meanwhile")
)

// A copyFunc appends the slots of the page with the prefix at, under the lock of its
// shard, and returns the bits of its prefix.
type copyFunc[K comparable] func(t *table[K], s *shard[K], at uint64, slots []uint64) ([]uint64, uint8)

// A restoreFunc restores the value of a key.
type restoreFunc func(print uint64, v pagetable.Value)

// A copier copies the pages of a table, in the order of their shards and prefixes.
type copier[K comparable] struct {
	table *table[K]
	shard int    // of the next page
	at    uint64 // the prefix of the next page
}

// write writes a snapshot. begin sets the law and the scale of a segment, and returns how
// to copy its pages. Nothing is locked while w is written to.
func (c *common[K]) write(w io.Writer, begin func(*segment) copyFunc[K]) error {
	if !c.hash.stable {
		return errUnstable
	}
	from := copier[K]{table: c.table.Load()}
	sum := crc32.NewIEEE()
	out := io.MultiWriter(w, sum)
	err := binary.Write(out, binary.LittleEndian, head{Magic: magic, Keys: c.hash.kind, Seed: from.table.seed})
	slots := make([]uint64, 0, segmentWords+pagetable.Words)
	b := make([]byte, 0, 8*cap(slots)+64)
	for more := true; err == nil && more; {
		var part segment
		part, slots, err = c.copySegment(&from, slots[:0], begin)
		if more = from.shard < len(from.table.shards); err != nil || len(slots) == 0 && more {
			continue
		}
		b, err = binary.Append(b[:0], binary.LittleEndian, part)
		for _, word := range slots {
			b = binary.LittleEndian.AppendUint64(b, word)
		}
		if !more && len(slots) > 0 {
			part.Words = 0
			b, err = binary.Append(b, binary.LittleEndian, part)
		}
		if err == nil {
			_, err = out.Write(b)
		}
	}
	if err == nil {
		err = binary.Write(w, binary.LittleEndian, sum.Sum32())
	}
	if err != nil {
		return fmt.Errorf("keyed: writing a snapshot: %w", err)
	}
	return nil
}

// copySegment appends the slots of the next pages.
func (c *common[K]) copySegment(from *copier[K], slots []uint64, begin func(*segment) copyFunc[K]) (part segment, _ []uint64, err error) {
	c.changes.Lock()
	defer c.changes.Unlock()
	t := from.table
	if t != c.table.Load() {
		return part, nil, errReplaced
	}
	part.Now = t.now()
	copyPage := begin(&part)
	for n := 0; n < segmentPages && len(slots) < segmentWords && from.shard < len(t.shards); n++ {
		s := &t.shards[from.shard]
		var depth uint8
		s.mu.Lock()
		slots, depth = copyPage(t, s, from.at, slots)
		s.mu.Unlock()
		from.next(depth)
	}
	part.Words = uint32(len(slots))
	return part, slots, nil
}

// next goes on to the page after one with a prefix of depth bits. A page that is split or
// joined meanwhile is before or after that, or its keys are written again.
func (c *copier[K]) next(depth uint8) {
	size := uint64(1) << (64 - depth) // 0 if it is the only page
	if c.at = c.at&-size + size; c.at == 0 {
		c.shard++
	}
}

// copySlots appends the slots of the page with the prefix at, and returns the bits of
// that prefix. save returns the form in which a value is saved, zero if it counts nothing.
// If only is not nil, it takes the values of the keys of these slots out of the page, and
// no others.
func (s *shard[K]) copySlots(
	t *table[K], at uint64, slots []uint64, only *slot.Set, save func(pagetable.Value) pagetable.Value,
) ([]uint64, uint8) {
	if s.dir.Pages == nil {
		return slots, 0
	}
	p := s.dir.Pages[at>>(64-s.dir.Depth)]
	for i := t.layout.First; i < pagetable.Words; i += t.layout.Words {
		if only != nil && !only.Has(uint16(p[i])) {
			continue
		}
		if v := save(t.layout.Get(p, i+1)); v != (pagetable.Value{}) {
			slots = append(slots, p[i], v.A, v.B)[:len(slots)+t.layout.Words]
			if only != nil {
				t.layout.Set(p, i+1, pagetable.Value{})
			}
		}
	}
	return slots, p.Depth()
}

// read reads a snapshot into a new table: fresh returns an empty one, and begin how to
// restore the values of a segment into it.
func (c *common[K]) read(r io.Reader, fresh func(siphash.Key) *table[K], begin func(*table[K], *segment) (restoreFunc, error)) error {
	if !c.hash.stable {
		return errUnstable
	}
	c.changes.Lock()
	defer c.changes.Unlock()
	t, err := c.readTable(r, fresh, begin)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("keyed: reading a snapshot: %w", err)
	}
	c.table.Store(t)
	return nil
}

func (c *common[K]) readTable(
	r io.Reader, fresh func(siphash.Key) *table[K], begin func(*table[K], *segment) (restoreFunc, error),
) (*table[K], error) {
	sum := crc32.NewIEEE()
	in := io.TeeReader(r, sum)
	var h head
	if err := binary.Read(in, binary.LittleEndian, &h); err != nil {
		return nil, err
	}
	if h.Magic != magic {
		return nil, fmt.Errorf("it begins with %q: not a snapshot, or of another version", h.Magic)
	}
	if h.Keys != c.hash.kind {
		return nil, errors.New("it is of another type of keys")
	}
	if c.hash.shared && h.Seed != c.table.Load().seed {
		return nil, errors.New("its fingerprints have another seed than those of the fleet")
	}
	t := fresh(h.Seed)
	for b := make([]byte, 1<<16); ; {
		var part segment
		if err := binary.Read(in, binary.LittleEndian, &part); err != nil {
			return nil, err
		}
		restore, err := begin(t, &part)
		if err != nil {
			return nil, err
		}
		if part.Words == 0 {
			break
		}
		if err := t.readSlots(in, int64(part.Words), b, restore); err != nil {
			return nil, err
		}
	}
	want := sum.Sum32()
	var got uint32
	if err := binary.Read(r, binary.LittleEndian, &got); err != nil {
		return nil, err
	}
	if got != want {
		return nil, fmt.Errorf("its checksum is %08x: want %08x", got, want)
	}
	return t, nil
}

// readSlots reads a number of words. b is a buffer.
func (t *table[K]) readSlots(in io.Reader, words int64, b []byte, restore restoreFunc) error {
	slot := 8 * t.layout.Words
	b = b[:len(b)/slot*slot]
	for left := 8 * words; left > 0; left -= int64(len(b)) {
		b = b[:min(int64(len(b)), left)]
		if len(b)%slot != 0 {
			return errors.New("it has a part of a slot")
		}
		if _, err := io.ReadFull(in, b); err != nil {
			return err
		}
		for at := 0; at < len(b); at += slot {
			var words [3]uint64
			for i := range t.layout.Words {
				words[i] = binary.LittleEndian.Uint64(b[at+8*i:])
			}
			if words[0] == 0 {
				return errors.New("it has a slot without a key")
			}
			restore(words[0], pagetable.Value{A: words[1], B: words[2]})
		}
	}
	return nil
}

// tokensOf returns a Quota that keeps the tokens of a bucket, and no time: buckets are
// saved under it.
func tokensOf(burst uint64) gcra.Quota { return gcra.Per(0, 0, int(burst)) }

// Snapshot writes the buckets of all keys, as keyed.Limiter.Snapshot says.
func (l *Buckets[K]) Snapshot(w io.Writer) error {
	return l.write(w, l.copying(nil))
}

// copying returns the begin of write and extract. If only is nil, all buckets are copied, and
// stay. Otherwise the buckets of the keys in these slots are copied, and those in pages are
// removed from the table.
func (l *Buckets[K]) copying(only *slot.Set) func(*segment) copyFunc[K] {
	return func(part *segment) copyFunc[K] {
		part.Law, part.Scale = bucketLaw, uint64(l.largestBurst())
		now, tokens := part.Now, tokensOf(part.Scale)
		// save returns the form in which a bucket is saved; 0 if it is full.
		save := func(q *gcra.Quota, b gcra.Bucket) uint64 {
			if b <= q.Level(now) {
				return 0
			}
			return uint64(q.Move(b, now, &tokens))
		}
		return func(t *table[K], s *shard[K], at uint64, slots []uint64) ([]uint64, uint8) {
			slots, depth := s.copySlots(t, at, slots, only, func(v pagetable.Value) pagetable.Value {
				return pagetable.Value{A: save(s.quota, gcra.Bucket(v.A))}
			})
			if only == nil {
				slots = s.copyOwn(t, at, depth, now, slots, save)
			}
			return slots, depth
		}
	}
}

// copyOwn appends slots for the buckets in own with keys that belong to the page with the prefix
// at, of depth bits. It is called under the same lock as copySlots for that page: in between,
// a bucket could move from a page into own or back, and be copied twice or not at all.
//
// The tokens that waiting calls have taken in advance count as not taken, because after a
// restart these calls ask again.
func (s *shard[K]) copyOwn(
	t *table[K], at uint64, depth uint8, now time.Duration, slots []uint64, save func(*gcra.Quota, gcra.Bucket) uint64,
) []uint64 {
	for print, o := range s.own {
		if pagetable.Prefix(print, uint64(len(t.shards)), depth) != int(at>>(64-depth)) {
			continue
		}
		if b := save(o.quota, o.quota.Refund(o.bucket, o.queue.Taken(o.quota, now))); b > 0 {
			slots = append(slots, print, b)
		}
	}
	return slots
}

// largestBurst returns the largest burst of all quotas but those without a limit: their
// buckets are full.
func (l *Buckets[K]) largestBurst() (most int) {
	if l.quota != gcra.Unlimited() {
		most = l.quota.Burst()
	}
	for _, q := range l.quotas {
		if *q != gcra.Unlimited() {
			most = max(most, q.Burst())
		}
	}
	return most
}

// Restore puts the buckets of a Snapshot in place of the present ones.
func (l *Buckets[K]) Restore(r io.Reader) error {
	return l.read(r, func(seed siphash.Key) *table[K] {
		q := l.quota
		t := newTable[K](l.cfg.Memory, seed, &q, nil)
		for key, q := range l.quotas { // they change under l.changes only
			l.setQuotaFor(t, key, q, true)
		}
		return t
	}, func(t *table[K], part *segment) (restoreFunc, error) {
		if part.Law != bucketLaw {
			return nil, errOtherLaw
		}
		tokens, now := tokensOf(part.Scale), t.now()
		then := min(part.Now, now) // a clock that was set back must not make debts larger
		return func(print uint64, v pagetable.Value) {
			s := t.shard(print)
			var p bucketPlace
			s.findBucket(t, &p, print, now)
			s.storeBucket(t, &p, max(tokens.Move(gcra.Bucket(v.A), then, p.quota), p.bucket()))
		}, nil
	})
}

// Snapshot writes the counts of all keys, as keyed.Windows.Snapshot says.
func (l *Windows[K]) Snapshot(w io.Writer) error {
	return l.write(w, l.copying(nil))
}

// copying is Buckets.copying for windows, all of which are in pages.
func (l *Windows[K]) copying(only *slot.Set) func(*segment) copyFunc[K] {
	return func(part *segment) copyFunc[K] {
		part.Law, part.Scale = fixedLaw, uint64(l.rule.Period)
		switch {
		case l.rule.Sliding:
			part.Law = slidingLaw
		case l.rule.Dated():
			part.Law = datedLaw
		}
		by := l.rule.At(part.Now)
		return func(t *table[K], s *shard[K], at uint64, slots []uint64) ([]uint64, uint8) {
			return s.copySlots(t, at, slots, only, func(v pagetable.Value) pagetable.Value {
				if by.Weight(v) == 0 {
					return pagetable.Value{}
				}
				return v
			})
		}
	}
}

// Restore puts the counts of a Snapshot in place of the present ones.
func (l *Windows[K]) Restore(r io.Reader) error {
	return l.read(r, func(seed siphash.Key) *table[K] {
		return newTable[K](l.cfg.Memory, seed, nil, l.rule)
	}, func(t *table[K], part *segment) (restoreFunc, error) {
		from, err := l.ruleOf(part)
		if err != nil {
			return nil, err
		}
		now := t.now()
		by := l.rule.At(now)
		return func(print uint64, v pagetable.Value) {
			s := t.shard(print)
			var p place
			s.find(t, &p, print)
			v = l.rule.Moved(from.Restored(v, part.Now, now), now, from)
			switch {
			case by.Weight(v) == 0:
			case p.at != 0:
				t.layout.Set(p.page, p.at, v)
			default:
				add(t, s, &p, v, by)
			}
		}, nil
	})
}

// ruleOf returns the rule of the counts in a segment.
func (l *Windows[K]) ruleOf(part *segment) (*pagetable.Rule, error) {
	from := &pagetable.Rule{Quota: window.Quota{Period: time.Duration(part.Scale), Sliding: part.Law == slidingLaw}}
	switch {
	case part.Law == bucketLaw:
		return nil, errOtherLaw
	case from.Period < MinPeriod || part.Law != fixedLaw && part.Law != slidingLaw && part.Law != datedLaw:
		return nil, errors.New("it is of windows that cannot be")
	case part.Law == datedLaw && l.rule.Dated() && from.Period == l.rule.Period:
		return l.rule, nil // in another time zone too
	}
	return from, nil
}

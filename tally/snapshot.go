package tally

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/weir-go/weir/internal/siphash"
)

// magic begins a snapshot: what it is, and the version of the format.
const magic = "weirtal1"

// After it come the seed, the instant, the period and whether windows slide;
// then the slots, of which the one with the fingerprint 0 is the last; then a
// checksum of all. Numbers have eight bytes, the lowest first.
const (
	headBytes = len(magic) + 4*8 + 1
	slotBytes = 3 * 8
)

// Snapshot writes the counts of all keys, for Restore in another process. The
// limiter goes on meanwhile: what is decided during the call may or may not be
// in it. No shard is locked for longer than it takes to copy a page, but a
// change of the Quota waits until all is written. The snapshot holds no keys,
// but the seed of their fingerprints: whoever reads it can make keys collide.
func (l *Limiter) Snapshot(w io.Writer) error {
	l.changes.Lock()
	defer l.changes.Unlock()
	t := l.table.Load()
	sum := crc32.NewIEEE()
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16)
	head := []byte(magic)
	for _, x := range []uint64{t.seed.K0, t.seed.K1, uint64(t.now()), uint64(l.rule.period)} {
		head = binary.LittleEndian.AppendUint64(head, x)
	}
	slides := byte(0)
	if l.rule.sliding {
		slides = 1
	}
	out.Write(append(head, slides)) // bufio keeps the error for Flush
	var buf []byte
	for i := range t.shards {
		t.shards[i].each(t, func(live []slot) {
			buf = buf[:0]
			for i := range live {
				buf = live[i].append(buf)
			}
			out.Write(buf)
		})
	}
	out.Write((&slot{}).append(nil)) // the end
	if err := out.Flush(); err != nil {
		return fmt.Errorf("tally: writing a snapshot: %w", err)
	}
	if _, err := w.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32())); err != nil {
		return fmt.Errorf("tally: writing a snapshot: %w", err)
	}
	return nil
}

func (s *slot) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, s.print)
	b = binary.LittleEndian.AppendUint64(b, s.count.a)
	return binary.LittleEndian.AppendUint64(b, s.count.b)
}

// each hands all live counts to f, a page at a time and without the lock.
func (s *shard) each(t *table, f func([]slot)) {
	var live []slot
	for at, more := uint64(0), true; more; { // the prefix of the next page
		live = live[:0]
		s.mu.Lock()
		at, more = s.copyPage(t, at, &live)
		s.mu.Unlock()
		f(live)
	}
}

// copyPage appends what is live on the page with the prefix at. It returns the
// prefix of the next page, if there is one; a page that is split meanwhile is
// before or after it with both its halves.
func (s *shard) copyPage(t *table, at uint64, live *[]slot) (next uint64, more bool) {
	if s.dir.pages == nil {
		return 0, false
	}
	m := s.rule.moment(t.now())
	p := s.dir.pages[at>>(64-s.dir.depth)]
	for _, e := range p.slots {
		if s.rule.weight(e.count, &m) > 0 {
			*live = append(*live, e)
		}
	}
	next = at + 1<<(64-p.depth)
	return next, next != 0 && p.depth > 0
}

// Restore puts the counts of a Snapshot in place of those there are, and counts
// denials anew. The time since then counts: windows go on and end. If the Period
// was another, or Sliding, it is as with SetQuota. If there is more than fits in
// memory, counts are forgotten as under a flood. If there is an error, nothing
// is changed. What was forgotten before the Snapshot is not in it: such a key
// has used nothing.
//
// Restore before the Limiter is used: what is decided during the call is lost,
// and for a while there is memory for both. It may read beyond the snapshot.
func (l *Limiter) Restore(r io.Reader) error {
	l.changes.Lock()
	defer l.changes.Unlock()
	t, err := l.restore(bufio.NewReaderSize(r, 1<<16))
	if err != nil {
		return fmt.Errorf("tally: reading a snapshot: %w", err)
	}
	l.table.Store(t)
	return nil
}

func (l *Limiter) restore(r *bufio.Reader) (*table, error) {
	sum := crc32.NewIEEE()
	in := io.TeeReader(r, sum)
	var head [headBytes]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, unexpected(err)
	}
	if string(head[:len(magic)]) != magic {
		return nil, fmt.Errorf("it begins with %q: not a snapshot, or of another version", head[:len(magic)])
	}
	field := func(i int) uint64 { return binary.LittleEndian.Uint64(head[len(magic)+8*i:]) }
	from := &rule{period: time.Duration(field(3)), sliding: head[headBytes-1] == 1}
	if from.period < MinPeriod || head[headBytes-1] > 1 {
		return nil, errors.New("it is of windows that cannot be")
	}
	t := newTable(l.cfg.Memory, siphash.Key{K0: field(0), K1: field(1)}, l.rule)
	t.noTop = l.cfg.NoTop
	now, then := t.now(), time.Duration(field(2))
	for {
		var b [slotBytes]byte
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return nil, unexpected(err)
		}
		field := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
		if print := field(0); print != 0 {
			c := from.restored(count{field(1), field(2)}, then, now)
			t.shard(print).restore(t, print, now, l.rule.moved(c, now, from))
			continue
		}
		want := sum.Sum32()
		var got [4]byte
		if _, err := io.ReadFull(r, got[:]); err != nil {
			return nil, unexpected(err)
		}
		if got := binary.LittleEndian.Uint32(got[:]); got != want {
			return nil, fmt.Errorf("its checksum is %08x: want %08x", got, want)
		}
		return t, nil
	}
}

// restore gives a key of a new table, which nobody has seen yet, its count.
func (s *shard) restore(t *table, print uint64, now time.Duration, c count) {
	m := s.rule.moment(now)
	p := s.find(t, print)
	switch {
	case s.rule.weight(c, &m) == 0:
	case p.slot != nil:
		p.slot.count = c
	default:
		s.add(t, &p, now, c)
	}
}

// unexpected makes the end of the input an error of its own.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

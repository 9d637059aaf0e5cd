package keyed

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/weir-go/weir/gcra"
)

// magic begins a snapshot: what it is, and the version of the format.
const magic = "weirkey1"

// errUnstable is the error of a key type without a hash of its own.
var errUnstable = errors.New("keyed: no snapshots of this type of keys: their hash differs in every process (use strings, integers, arrays of bytes or netip)")

// Snapshot writes the buckets of all keys, for Restore in another process. The
// limiter goes on meanwhile: what is decided during the call may or may not be
// in it. No shard is locked for longer than it takes to copy a page. Only keys
// of types with a hash of their own can be written. The snapshot holds no keys,
// but the seed of their fingerprints: whoever reads it can make keys collide.
func (l *Limiter[K]) Snapshot(w io.Writer) error {
	if !l.hash.stable {
		return errUnstable
	}
	l.mu.Lock() // the quota must not change meanwhile
	defer l.mu.Unlock()
	t := l.table.Load()
	sum := crc32.NewIEEE()
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16)
	now := t.now()
	quota, err := l.quota.MarshalBinary()
	if err != nil {
		return err
	}
	head := []byte(magic)
	head = binary.LittleEndian.AppendUint64(head, t.seed.k0)
	head = binary.LittleEndian.AppendUint64(head, t.seed.k1)
	head = binary.LittleEndian.AppendUint64(head, uint64(now))
	head = append(head, quota...)
	if _, err := out.Write(head); err != nil {
		return fmt.Errorf("keyed: writing a snapshot: %w", err)
	}
	var buf []byte
	write := func(slots []slot) {
		buf = buf[:0]
		for _, s := range slots {
			buf = binary.LittleEndian.AppendUint64(buf, s.print)
			buf = binary.LittleEndian.AppendUint64(buf, uint64(s.bucket))
		}
		out.Write(buf) // bufio keeps the error for Flush
	}
	for i := range t.shards {
		t.shards[i].each(t, write)
	}
	write([]slot{{}}) // the end
	if err := out.Flush(); err != nil {
		return fmt.Errorf("keyed: writing a snapshot: %w", err)
	}
	if _, err := w.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32())); err != nil {
		return fmt.Errorf("keyed: writing a snapshot: %w", err)
	}
	return nil
}

// each hands all buckets in debt to f, a page at a time and without the lock.
func (s *shard[K]) each(t *table[K], f func([]slot)) {
	var slots []slot
	s.mu.Lock()
	now := t.now()
	for print, o := range s.own {
		b := o.quota.Refund(o.bucket, o.line.Tokens(o.quota, now)) // those who wait will ask again
		if b = o.quota.Move(b, now, s.quota); b > s.quota.Level(now) {
			slots = append(slots, slot{print, b})
		}
	}
	s.mu.Unlock()
	f(slots)
	for i := 0; ; {
		slots = slots[:0]
		s.mu.Lock()
		if i >= len(s.dir.pages) {
			s.mu.Unlock()
			return
		}
		p := s.dir.pages[i]
		level := s.quota.Level(t.now())
		for _, e := range p.slots {
			if e.bucket > level {
				slots = append(slots, e)
			}
		}
		i += 1 << (s.dir.depth - p.depth)
		s.mu.Unlock()
		f(slots)
	}
}

// Restore puts the buckets of a Snapshot in place of those there are. The time
// since then counts: buckets are refilled by it. They are moved to the Quota
// that the Limiter has now. If there is more than fits in memory, buckets are
// forgotten as under a flood. If there is an error, nothing is changed. What
// was forgotten before the Snapshot is not in it: such a key has a full bucket
// again.
//
// Restore before the Limiter is used: what is decided during the call, and by
// those who wait, is lost.
func (l *Limiter[K]) Restore(r io.Reader) error {
	if !l.hash.stable {
		return errUnstable
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.quota
	t, err := restore[K](bufio.NewReaderSize(r, 1<<16), l.cfg.Memory, &q)
	if err != nil {
		return fmt.Errorf("keyed: reading a snapshot: %w", err)
	}
	for key, q := range l.quotas {
		l.setQuotaFor(t, key, q, true)
	}
	l.table.Store(t)
	return nil
}

func restore[K comparable](r *bufio.Reader, memory int, q *gcra.Quota) (*table[K], error) {
	sum := crc32.NewIEEE()
	in := io.TeeReader(r, sum)
	head := make([]byte, len(magic)+24+gcra.QuotaBytes)
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, unexpected(err)
	}
	if string(head[:len(magic)]) != magic {
		return nil, fmt.Errorf("it begins with %q: not a snapshot, or of another version", head[:len(magic)])
	}
	field := func(i int) uint64 { return binary.LittleEndian.Uint64(head[len(magic)+8*i:]) }
	then := time.Duration(field(2))
	var from gcra.Quota
	if err := from.UnmarshalBinary(head[len(magic)+24:]); err != nil {
		return nil, err
	}
	t := newTable[K](memory, seed{field(0), field(1)}, q)
	now := t.now()
	// A clock that was set back since must not make debts larger.
	ahead := from.Level(then) - min(from.Level(now), from.Level(then))
	move := func(b gcra.Bucket) gcra.Bucket {
		return from.Move(b-min(ahead, b), now, q)
	}
	for {
		var entry [16]byte
		if _, err := io.ReadFull(in, entry[:]); err != nil {
			return nil, unexpected(err)
		}
		e := slot{binary.LittleEndian.Uint64(entry[:8]), move(gcra.Bucket(binary.LittleEndian.Uint64(entry[8:])))}
		if e.print == 0 { // the end
			want := sum.Sum32()
			if _, err := io.ReadFull(r, entry[:4]); err != nil {
				return nil, unexpected(err)
			}
			if got := binary.LittleEndian.Uint32(entry[:4]); got != want {
				return nil, fmt.Errorf("its checksum is %08x: want %08x", got, want)
			}
			return t, nil
		}
		s := t.shard(e.print)
		var p place
		s.find(t, &p, e.print, now)
		s.store(t, &p, max(e.bucket, p.bucket))
	}
}

// unexpected makes the end of the input an error of its own.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Package state is the format of the snapshots of a node.
//
// A snapshot begins with a text that names the format and its version, the wall
// clock and the node's clock. Records follow, each with a kind, names of rules and
// a body, and at the end a checksum of all.
package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/service/internal/server/grant"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/ruleset"
)

const magic = "weirsrv1"

// Kinds of records.
const (
	recordEnd    = iota
	recordCounts // of one rule
	recordTrial  // of its candidate
	recordLimits // that auto has found, for one rule
	recordLeases // of all rules that it names
	recordGrants
)

// Counts record the usage of keys under one rule.
type Counts struct {
	Rule      string
	Candidate bool          // of its candidate
	Since     time.Duration // when the rule began to count
	Kind      string        // of its buckets: see quota.Buckets
	Data      []byte
}

// Limits are the limits that a rule has found.
type Limits struct {
	Rule  string
	Found []lease.SavedLimit
}

// A Snapshot is a decoded snapshot.
type Snapshot struct {
	Wall, Clock time.Duration
	Counts      []Counts
	Limits      []Limits
	Rules       []string // of Leases
	Leases      []lease.SavedLease
	Token       uint64
	Grants      grant.State

	granted bool
}

// A Writer writes a snapshot record by record. Close returns the first error.
type Writer struct {
	w   io.Writer
	sum hash.Hash32
	err error
}

// NewWriter begins a snapshot at the instant now.
func NewWriter(w io.Writer, now time.Duration) *Writer {
	sum := crc32.NewIEEE()
	out := &Writer{w: io.MultiWriter(w, sum), sum: sum}
	out.write(appendTime(appendTime([]byte(magic), time.Duration(time.Now().UnixNano())), now))
	return out
}

// Counts writes the counts of a rule.
func (w *Writer) Counts(c *Counts) {
	kind := byte(recordCounts)
	if c.Candidate {
		kind = recordTrial
	}
	w.record(kind, []string{c.Rule}, append(appendText(appendTime(nil, c.Since), c.Kind), c.Data...))
}

// Limits writes the limits that a rule has found, if there are any.
func (w *Writer) Limits(l Limits) {
	var b []byte
	for _, s := range l.Found {
		b = appendTime(binary.AppendUvarint(appendText(b, s.Bucket), uint64(s.Limit)), s.Usual)
	}
	if len(b) > 0 {
		w.record(recordLimits, []string{l.Rule}, b)
	}
}

// Leases writes all leases, and the last fencing token.
func (w *Writer) Leases(rules []string, leases []lease.SavedLease, token uint64) {
	b := binary.AppendUvarint(nil, token)
	for i := range leases {
		l := &leases[i]
		b = appendText(append(b, l.ID[:]...), l.Key)
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(l.N)), l.Token)
		for _, d := range [...]time.Duration{l.Until, l.Terms.TTL, l.Terms.MaxTTL} {
			b = appendTime(b, d)
		}
		b = binary.AppendUvarint(b, uint64(len(l.Under)))
		for _, place := range l.Under {
			b = binary.AppendUvarint(b, uint64(place))
		}
	}
	w.record(recordLeases, rules, b)
}

// Grants writes the secret of grants, and which were settled.
func (w *Writer) Grants(g grant.State) {
	var b []byte
	for _, n := range [...]uint64{g.Secret.K0, g.Secret.K1, g.Seq} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b = appendTime(appendTime(b, g.Turned), g.Floor)
	for _, settled := range g.Settled {
		b = binary.AppendUvarint(b, uint64(len(settled)))
		for _, stamp := range settled {
			b = binary.LittleEndian.AppendUint64(b, stamp)
		}
	}
	w.record(recordGrants, nil, b)
}

// Close ends the snapshot.
func (w *Writer) Close() error {
	w.write([]byte{recordEnd})
	w.write(binary.LittleEndian.AppendUint32(nil, w.sum.Sum32()))
	if w.err != nil {
		return fmt.Errorf("server: writing a snapshot: %w", w.err)
	}
	return nil
}

func (w *Writer) write(b []byte) {
	if w.err == nil {
		_, w.err = w.w.Write(b)
	}
}

func (w *Writer) record(kind byte, names []string, body []byte) {
	head := binary.AppendUvarint([]byte{kind}, uint64(len(names)))
	for _, name := range names {
		head = appendText(head, name)
	}
	w.write(binary.AppendUvarint(head, uint64(len(body))))
	w.write(body)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendTime appends an instant or a duration; negative ones count as zero.
func appendTime(b []byte, d time.Duration) []byte { return binary.AppendUvarint(b, uint64(max(d, 0))) }

var errInvalid = errors.New("its content is not valid")

// Read reads what a Writer has written.
func Read(r io.Reader) (*Snapshot, error) {
	b, err := io.ReadAll(r)
	var s *Snapshot
	if err == nil {
		s, err = decode(b)
	}
	if err != nil {
		return nil, fmt.Errorf("server: reading a snapshot: %w", err)
	}
	return s, nil
}

func decode(b []byte) (*Snapshot, error) {
	const least = len(magic) + 4
	if n := min(len(b), len(magic)); string(b[:n]) != magic[:n] {
		return nil, fmt.Errorf("it begins with %q: it is not a snapshot, or has another version", b[:n])
	}
	if len(b) < least {
		return nil, io.ErrUnexpectedEOF
	}
	b, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if got := crc32.ChecksumIEEE(b); got != sum {
		return nil, fmt.Errorf("its checksum is %08x, want %08x: it is truncated or was changed", got, sum)
	}
	d := decoder{b: b[len(magic):]}
	s := &Snapshot{Wall: time.Duration(d.uint(math.MaxInt64)), Clock: d.time()}
	for d.record(s) {
	}
	if d.bad || len(d.b) > 0 || !s.granted {
		return nil, errInvalid
	}
	return s, nil
}

// A decoder takes values off a text. Once one is missing or out of range, bad is
// set and all values are zero.
type decoder struct {
	b   []byte
	bad bool
}

// record reads one record; false if it is the last.
func (d *decoder) record(s *Snapshot) bool {
	kind := d.bytes(1)
	if kind == nil || kind[0] == recordEnd {
		return false
	}
	var names []string
	for range d.int(len(d.b)) {
		names = append(names, d.text())
	}
	body := decoder{b: d.bytes(d.int(len(d.b)))}
	one := kind[0] == recordCounts || kind[0] == recordTrial || kind[0] == recordLimits
	if d.bad || one && len(names) != 1 {
		d.bad = true
		return false
	}
	switch kind[0] {
	case recordCounts, recordTrial:
		c := Counts{Rule: names[0], Candidate: kind[0] == recordTrial, Since: body.time(), Kind: body.text()}
		c.Data, body.b = body.b, nil
		s.Counts = append(s.Counts, c)
	case recordLimits:
		l := Limits{Rule: names[0]}
		for len(body.b) > 0 {
			l.Found = append(l.Found, lease.SavedLimit{Bucket: body.text(), Limit: body.int(math.MaxInt32), Usual: body.time()})
		}
		s.Limits = append(s.Limits, l)
	case recordLeases:
		s.Rules, s.Token = names, body.uint(math.MaxInt64)
		for len(body.b) > 0 {
			s.Leases = append(s.Leases, body.lease(len(names)))
		}
	case recordGrants:
		s.Grants, s.granted = body.grants(), true
	default:
		d.bad = true
	}
	d.bad = d.bad || body.bad || len(body.b) > 0
	return !d.bad
}

func (d *decoder) lease(rules int) (l lease.SavedLease) {
	copy(l.ID[:], d.bytes(len(l.ID)))
	l.Key = d.text()
	l.N = d.int(math.MaxInt32)
	l.Token = d.uint(math.MaxInt64)
	l.Until, l.Terms.TTL, l.Terms.MaxTTL = d.time(), d.time(), d.time()
	for range d.int(len(d.b)) {
		l.Under = append(l.Under, d.int(rules-1))
	}
	if l.N == 0 || l.Terms.TTL == 0 || l.Terms.TTL > l.Terms.MaxTTL {
		d.spoil()
	}
	return l
}

func (d *decoder) grants() (g grant.State) {
	g.Secret = siphash.Key{K0: d.fixed64(), K1: d.fixed64()}
	g.Seq, g.Turned, g.Floor = d.fixed64(), d.time(), d.time()
	for i := range g.Settled {
		for range d.int(len(d.b) / 8) {
			g.Settled[i] = append(g.Settled[i], d.fixed64())
		}
	}
	return g
}

func (d *decoder) spoil() { d.bad, d.b = true, nil }

// bytes takes n bytes; nil if there are fewer.
func (d *decoder) bytes(n int) []byte {
	if n > len(d.b) {
		d.spoil()
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

// uint takes a number from 0 to most.
func (d *decoder) uint(most uint64) uint64 {
	x, n := binary.Uvarint(d.b)
	if n <= 0 || x > most {
		d.spoil()
		return 0
	}
	d.b = d.b[n:]
	return x
}

// int is uint for an int. If most is negative, no number is valid.
func (d *decoder) int(most int) int {
	if most < 0 {
		d.spoil()
	}
	return int(d.uint(uint64(max(most, 0))))
}

func (d *decoder) fixed64() uint64 {
	if b := d.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) text() string { return string(d.bytes(d.int(len(d.b)))) }

// time takes an instant or a duration.
func (d *decoder) time() time.Duration { return time.Duration(d.uint(ruleset.MaxSpan)) }

// WriteFile writes a file that only its owner can read, with what write writes, in
// place of the file there. If it fails, that stays unchanged. It writes a file
// beside it, with the suffix .new: there must be one call at a time.
func WriteFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err := errors.Join(f.Chmod(0o600), write(f)); err != nil { // an older file may have another mode
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close()) // so that the new name survives a power failure
}

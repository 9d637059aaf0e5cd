package decisionlog

import (
	"encoding/binary"
	"encoding/json"
	"hash/maphash"
	"io"
	"math"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/blockfile"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Flags tell more about a decision.
type Flags uint8

// The flags.
const (
	Waits       Flags = 1 << iota // the request would wait for tokens
	Together                      // of a batch that is allowed as a whole or not at all
	Descriptors                   // of the descriptors of one request
	WantID                        // its grant may be settled
	Settled                       // no decision: a grant was settled
)

// A Decision is a decision about a request for tokens.
type Decision struct {
	At  time.Duration // since the epoch; of a request that waits, its arrival
	Key *Key          // nil if it is not recorded
	N   int           // of a settlement, the true cost
	// MaxWait is how long the caller would wait, if it would. Of a settlement, it is the age of the grant, MaxAge if that is
	// not known.
	MaxWait time.Duration
	// Group is the same for the requests of one batch; 0 without one. Of a settlement, it is the cost that the request took.
	Group   uint32
	Rule    string // that denied, or the first that counts; empty if there is none
	Terms   *Terms // nil if the request brings none
	Unknown bool   // it brings terms that are not recorded
	Denied  bool
	Reason  weir.Reason // of a denial; 0 if only others of its batch were denied
	Flags   Flags
}

// LongestWait is the highest MaxWait of a request, and stands for more.
const LongestWait = math.MaxUint32 << 7 * time.Nanosecond

// MaxAge is the highest MaxWait of a settlement, in the unit of a file.
const MaxAge = math.MaxUint32 << 10 * time.Nanosecond

// A Key is a key in parts. The decisions of one file may have several for the same key.
type Key struct {
	Parts []Part
	Mark  int // for the caller of Read; 0 at first

	number uint32
}

// Terms are the quota, the limit or the queue that a request brings.
type Terms struct {
	Quota decider.Quota `json:"quota,omitzero"`
	Limit int           `json:"limit,omitempty"`
	Queue *int          `json:"queue,omitempty"`
}

// Info describes a file.
type Info struct {
	Version    string `json:"version"`    // of weir
	Separators string `json:"separators"` // of segments
	SaltID     string `json:"salt_id"`
	Salt       []byte `json:"salt,omitempty"` // unless it is kept apart
	// See server.Config.
	MaxLimit  int  `json:"max_limit,omitempty"`
	MaxQueue  int  `json:"max_queue,omitempty"`
	OwnQuotas bool `json:"own_quotas,omitempty"`
}

// Counters count what a file does not have, since the epoch.
type Counters struct {
	Lost     uint64 `json:"lost"`      // decisions: more came than could be written
	Failed   uint64 `json:"failed"`    // requests that ended without a decision
	Leases   uint64 `json:"leases"`    // requests for leases
	LeafUsed uint64 `json:"leaf_used"` // tokens that leaves have used
}

var format = blockfile.Format{Magic: "weirdec", Version: 1, Size: recordSize, What: "recording of decisions"}

const (
	recordSize = 32

	kindInfo      = 'I'
	kindKeys      = 'K'
	kindRule      = 'R'
	kindTerms     = 'T'
	kindCounters  = 'C'
	kindDecisions = 'D'

	otherTerms  = math.MaxUint16
	maxNames    = otherTerms - 1
	maxKeyParts = math.MaxUint16
)

// maxKeys bounds the keys that a Writer remembers. Then it forgets them all, and writes them again with other numbers. A Reader
// remembers twice as many: some decisions with the last numbers are written after that.
const maxKeys = 1 << 16

// A Writer writes a file. It is not safe for concurrent use.
type Writer struct {
	w       *blockfile.Writer
	info    Info
	printer *Printer
	seed    maphash.Seed

	lastKey  uint32
	keys     map[uint64]uint32 // by hash
	rules    map[string]uint16
	terms    map[string]uint16
	counters Counters

	keyBlock, block []byte // not complete
}

// blockDecisions is how many decisions a Writer puts into a block.
const blockDecisions = 1024

// NewWriter writes the header and the Info, and returns a Writer. Instants of decisions count from
// epoch.
func NewWriter(w io.Writer, epoch time.Time, info Info, salt Salt) *Writer {
	out := &Writer{
		w: blockfile.NewWriter(w, format, epoch), info: info, printer: NewPrinter(salt), seed: maphash.MakeSeed(),
		keys: map[uint64]uint32{}, rules: map[string]uint16{"": 0}, terms: map[string]uint16{},
		keyBlock: make([]byte, 0, 16<<10), block: make([]byte, 0, blockDecisions*recordSize),
	}
	out.json(kindInfo, info)
	return out
}

// Size returns how many bytes were written.
func (w *Writer) Size() int64 { return w.w.Size() }

// Flush writes what is still in memory.
func (w *Writer) Flush() error {
	w.flushKeys()
	if len(w.block) > 0 {
		w.w.Block(kindDecisions, w.block)
		w.block = w.block[:0]
	}
	return w.w.Err()
}

// Count writes the counters if they have changed.
func (w *Writer) Count(c Counters) error {
	if c != w.counters {
		w.counters = c
		w.json(kindCounters, c)
	}
	return w.w.Err()
}

// add adds an entry of a Recorder.
func (w *Writer) add(e *entry, key string, terms *terms) {
	b := binary.LittleEndian.AppendUint64(w.block, uint64(e.at))
	b = binary.LittleEndian.AppendUint32(b, w.key(key))
	b = binary.LittleEndian.AppendUint32(b, uint32(min(e.n, math.MaxUint32)))
	b = binary.LittleEndian.AppendUint32(b, ticks(e.maxWait, e.flags))
	b = binary.LittleEndian.AppendUint32(b, e.group)
	b = binary.LittleEndian.AppendUint16(b, w.rule(e.rule))
	b = binary.LittleEndian.AppendUint16(b, w.term(terms))
	w.block = append(b, e.outcome, byte(e.flags), 0, 0)
	if len(w.block) == cap(w.block) {
		_ = w.Flush() // the error stays in w.w
	}
}

// unit returns the binary logarithm of the unit of MaxWait, in nanoseconds.
func unit(f Flags) int {
	if f&Settled != 0 {
		return 10
	}
	return 7
}

// ticks returns a MaxWait in its unit, rounded up.
func ticks(d time.Duration, f Flags) uint32 {
	n := uint64(max(d, 0)) + 1<<unit(f) - 1
	return uint32(min(n>>unit(f), math.MaxUint32))
}

// key returns the number of a key, and has it written if it is new.
func (w *Writer) key(key string) uint32 {
	hash := maphash.String(w.seed, key)
	if number, ok := w.keys[hash]; ok {
		return number
	}
	if len(w.keys) == maxKeys {
		clear(w.keys)
	}
	begin := len(w.keyBlock)
	b := append(w.keyBlock, make([]byte, 6)...)
	b = appendKey(b, key, w.info.Separators, w.printer)
	n := len(b) - begin - 6
	if n > maxKeyParts || w.lastKey == math.MaxUint32 {
		w.keyBlock = b[:begin]
		return 0
	}
	w.lastKey++
	binary.LittleEndian.PutUint32(b[begin:], w.lastKey)
	binary.LittleEndian.PutUint16(b[begin+4:], uint16(n))
	w.keyBlock, w.keys[hash] = b, w.lastKey
	if len(b) > 15<<10 {
		w.flushKeys()
	}
	return w.lastKey
}

func (w *Writer) flushKeys() {
	if len(w.keyBlock) > 0 {
		w.w.Block(kindKeys, w.keyBlock)
		w.keyBlock = w.keyBlock[:0]
	}
}

// rule returns the number of a rule, and writes it if it is new; 0 if there are too many.
func (w *Writer) rule(name string) uint16 {
	number, ok := w.rules[name]
	if !ok && len(w.rules) <= maxNames {
		number = uint16(len(w.rules))
		w.rules[name] = number
		w.w.Block(kindRule, append(binary.LittleEndian.AppendUint16(nil, number), name...))
	}
	return number
}

// term returns the number of terms, and writes them if they are new.
func (w *Writer) term(t *terms) uint16 {
	if t == nil {
		return 0
	}
	told := Terms{Quota: t.quota, Limit: t.limit}
	if t.ownQueue {
		told.Queue = &t.queue
	}
	text, _ := json.Marshal(told) // plain numbers
	number, ok := w.terms[string(text)]
	switch {
	case ok:
	case len(w.terms) == maxNames:
		return otherTerms
	default:
		number = uint16(len(w.terms) + 1)
		w.terms[string(text)] = number
		w.w.Block(kindTerms, append(binary.LittleEndian.AppendUint16(nil, number), text...))
	}
	return number
}

func (w *Writer) json(kind byte, v any) {
	text, _ := json.Marshal(v) // plain data
	w.w.Block(kind, text)
}

// Errors of a Reader: see blockfile.
var (
	ErrCut     = blockfile.ErrCut
	ErrDamaged = blockfile.ErrDamaged
	ErrSecond  = blockfile.ErrSecond
)

// A Reader reads a file. It is not safe for concurrent use.
type Reader struct {
	r        *blockfile.Reader
	info     Info
	counters Counters
	keys     []*Key // the last ones, by number modulo their number
	rules    map[uint16]string
	terms    map[uint16]*Terms
	rest     []byte // of a block: the decisions that are not read yet
	err      error
}

// NewReader reads the header and the Info of a file.
func NewReader(r io.Reader) (*Reader, error) {
	blocks, err := blockfile.NewReader(r, format)
	if err != nil {
		return nil, err
	}
	in := &Reader{r: blocks, keys: make([]*Key, 2*maxKeys), rules: map[uint16]string{}, terms: map[uint16]*Terms{}}
	if kind, err := in.next(); err != nil {
		if err == io.EOF {
			err = ErrCut
		}
		return nil, err
	} else if kind != kindInfo {
		return nil, ErrDamaged
	}
	return in, nil
}

// Epoch returns the instant from which those of decisions count.
func (r *Reader) Epoch() time.Time { return r.r.Epoch() }

// Info returns the description of the file.
func (r *Reader) Info() Info { return r.info }

// Counters returns the counters, as far as the file has been read.
func (r *Reader) Counters() Counters { return r.counters }

// Read returns the next decision. At the end the error is io.EOF; after the last whole block of a file that is cut
// off, ErrCut.
func (r *Reader) Read() (Decision, error) {
	for r.err == nil && len(r.rest) == 0 {
		_, r.err = r.next()
	}
	if r.err != nil {
		return Decision{}, r.err
	}
	b := r.rest[:recordSize]
	r.rest = r.rest[recordSize:]
	d := Decision{
		At: time.Duration(binary.LittleEndian.Uint64(b)), N: int(binary.LittleEndian.Uint32(b[12:])),
		MaxWait: time.Duration(binary.LittleEndian.Uint32(b[16:])) << unit(Flags(b[29])), Group: binary.LittleEndian.Uint32(b[20:]),
		Rule: r.rules[binary.LittleEndian.Uint16(b[24:])], Denied: b[28] > 0, Flags: Flags(b[29]),
	}
	number := binary.LittleEndian.Uint32(b[8:])
	if key := r.keys[number%(2*maxKeys)]; key != nil && key.number == number {
		d.Key = key
	}
	if number := binary.LittleEndian.Uint16(b[26:]); number > 0 {
		d.Terms = r.terms[number]
		d.Unknown = d.Terms == nil
	}
	if d.Denied {
		d.Reason = weir.Reason(b[28] - 1)
	}
	return d, nil
}

// next reads a block.
func (r *Reader) next() (kind byte, err error) {
	kind, payload, err := r.r.Next()
	if err == nil && !r.take(kind, payload) {
		err = ErrDamaged
	}
	return kind, err // also io.EOF
}

// take takes the payload of a block, and reports whether it is well-formed.
func (r *Reader) take(kind byte, payload []byte) bool {
	switch kind {
	case kindDecisions:
		r.rest = payload
		return len(payload)%recordSize == 0
	case kindKeys:
		for len(payload) > 0 {
			if len(payload) < 6 || len(payload) < 6+int(binary.LittleEndian.Uint16(payload[4:])) {
				return false
			}
			number, n := binary.LittleEndian.Uint32(payload), int(binary.LittleEndian.Uint16(payload[4:]))
			parts, ok := readKey(payload[6 : 6+n])
			if !ok {
				return false
			}
			r.keys[number%(2*maxKeys)] = &Key{Parts: parts, number: number}
			payload = payload[6+n:]
		}
	case kindRule:
		if len(payload) < 2 {
			return false
		}
		r.rules[binary.LittleEndian.Uint16(payload)] = string(payload[2:])
	case kindTerms:
		t := new(Terms)
		if len(payload) < 2 || json.Unmarshal(payload[2:], t) != nil {
			return false
		}
		r.terms[binary.LittleEndian.Uint16(payload)] = t
	case kindInfo:
		return json.Unmarshal(payload, &r.info) == nil
	case kindCounters:
		return json.Unmarshal(payload, &r.counters) == nil
	}
	return true
}

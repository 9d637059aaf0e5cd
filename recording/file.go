package recording

import (
	"encoding/binary"
	"io"
	"maps"
	"time"

	"github.com/weir-go/weir/internal/blockfile"
)

// format: see the documentation of the package.
var format = blockfile.Format{Magic: "weirrec", Version: 1, Size: Size, What: "recording"}

const (
	kindRecords = 'R'
	kindName    = 'N'
	kindLost    = 'L'
)

// A Writer writes a recording. Its methods return the first error of the io.Writer. It is not safe for
// concurrent use.
type Writer struct {
	w     *blockfile.Writer
	buf   []byte // a block of records that is not complete
	named map[uint16]string
	lost  uint64
}

// writeAhead is how many records a Writer puts into a block.
const writeAhead = 512

// NewWriter returns a Writer, and writes the header. Instants of records count from epoch.
func NewWriter(w io.Writer, epoch time.Time) *Writer {
	return &Writer{
		w: blockfile.NewWriter(w, format, epoch), named: map[uint16]string{},
		buf: make([]byte, 0, writeAhead*Size),
	}
}

// Write adds a record. It may stay in memory until Flush.
func (w *Writer) Write(r Record) error {
	var p packed
	p.pack(&r)
	w.add(&p)
	return w.w.Err()
}

func (w *Writer) add(p *packed) {
	if w.buf = append(w.buf, p[:]...); len(w.buf) == cap(w.buf) {
		_ = w.Flush() // the error stays in w.w
	}
}

// Name says the name of a class.
func (w *Writer) Name(class uint16, name string) error {
	if w.named[class] == name {
		return w.w.Err()
	}
	w.named[class] = name
	b := binary.LittleEndian.AppendUint16(nil, class)
	w.w.Block(kindName, append(b, name[:min(len(name), blockfile.MaxPayload-2)]...))
	return w.w.Err()
}

// Lost says how many requests of the recording have no record.
func (w *Writer) Lost(n uint64) error {
	if n != w.lost {
		w.lost = n
		w.w.Block(kindLost, binary.LittleEndian.AppendUint64(nil, n))
	}
	return w.w.Err()
}

// Flush writes what is still in memory. Call it at the end.
func (w *Writer) Flush() error {
	if len(w.buf) > 0 {
		w.w.Block(kindRecords, w.buf)
		w.buf = w.buf[:0]
	}
	return w.w.Err()
}

var (
	// ErrCut says that a recording ends within a block, as that of a process that was killed does.
	ErrCut = blockfile.ErrCut
	// ErrDamaged says that the checksum of a block is wrong. What follows it is not read.
	ErrDamaged = blockfile.ErrDamaged
	// ErrSecond says that a second recording follows, as in two files that were joined. It is not read.
	ErrSecond = blockfile.ErrSecond
)

// A Reader reads a recording, also while it is being written. It is not safe for concurrent use.
type Reader struct {
	r     *blockfile.Reader
	names map[uint16]string
	lost  uint64
	rest  []byte // of a block: the records that are not read yet
	err   error
}

// NewReader reads the header of a recording.
func NewReader(r io.Reader) (*Reader, error) {
	in, err := blockfile.NewReader(r, format)
	if err != nil {
		return nil, err
	}
	return &Reader{r: in, names: map[uint16]string{}}, nil
}

// Epoch returns the instant from which those of records count.
func (r *Reader) Epoch() time.Time { return r.r.Epoch() }

// Names returns the names of classes, as far as the file has been read.
func (r *Reader) Names() map[uint16]string { return maps.Clone(r.names) }

// Lost returns how many requests have no record, as far as the file has been read.
func (r *Reader) Lost() uint64 { return r.lost }

// Read returns the next record. At the end the error is io.EOF; after the last whole block of a file that
// is cut off, ErrCut.
func (r *Reader) Read() (Record, error) {
	for r.err == nil && len(r.rest) == 0 {
		r.err = r.next()
	}
	if r.err != nil {
		return Record{}, r.err
	}
	p := (*packed)(r.rest)
	r.rest = r.rest[Size:]
	return p.record(), nil
}

// next reads a block.
func (r *Reader) next() error {
	kind, payload, err := r.r.Next()
	if err != nil {
		return err // also io.EOF
	}
	switch kind {
	case kindRecords:
		if len(payload)%Size != 0 {
			return ErrDamaged
		}
		r.rest = payload
	case kindName:
		if len(payload) < 2 {
			return ErrDamaged
		}
		r.names[binary.LittleEndian.Uint16(payload)] = string(payload[2:])
	case kindLost:
		if len(payload) != 8 {
			return ErrDamaged
		}
		r.lost = binary.LittleEndian.Uint64(payload)
	}
	return nil
}

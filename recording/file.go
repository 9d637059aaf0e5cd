package recording

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"time"
)

const (
	magic      = "weirrec\x01"
	headerSize = 24
	blockHead  = 12
	maxPayload = 1 << 20

	kindRecords = 'R'
	kindName    = 'N'
	kindLost    = 'L'
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A Writer writes a recording. Its methods return the first error of the io.Writer. It is not safe for
// concurrent use.
type Writer struct {
	w     io.Writer
	err   error
	buf   []byte // a block of records that is not complete
	named map[uint16]string
	lost  uint64
}

// writeAhead is how many records a Writer puts into a block.
const writeAhead = 512

// NewWriter returns a Writer, and writes the header. Instants of records count from epoch.
func NewWriter(w io.Writer, epoch time.Time) *Writer {
	out := &Writer{w: w, named: map[uint16]string{}, buf: make([]byte, blockHead, blockHead+writeAhead*Size)}
	h := make([]byte, 0, headerSize)
	h = append(h, magic...)
	h = binary.LittleEndian.AppendUint64(h, uint64(epoch.UnixNano()))
	h = binary.LittleEndian.AppendUint32(h, Size)
	h = binary.LittleEndian.AppendUint32(h, crc32.Checksum(h, castagnoli))
	out.write(h)
	return out
}

// Write adds a record. It may stay in memory until Flush.
func (w *Writer) Write(r Record) error {
	var p packed
	p.pack(&r)
	w.add(&p)
	return w.err
}

func (w *Writer) add(p *packed) {
	if w.buf = append(w.buf, p[:]...); len(w.buf) == cap(w.buf) {
		_ = w.Flush() // the error stays in w.err
	}
}

// Name says the name of a class.
func (w *Writer) Name(class uint16, name string) error {
	if w.named[class] == name {
		return w.err
	}
	w.named[class] = name
	b := make([]byte, blockHead, blockHead+2+len(name))
	b = binary.LittleEndian.AppendUint16(b, class)
	w.block(kindName, append(b, name[:min(len(name), maxPayload-2)]...))
	return w.err
}

// Lost says how many requests of the recording have no record.
func (w *Writer) Lost(n uint64) error {
	if n != w.lost {
		w.lost = n
		w.block(kindLost, binary.LittleEndian.AppendUint64(make([]byte, blockHead, blockHead+8), n))
	}
	return w.err
}

// Flush writes what is still in memory. Call it at the end.
func (w *Writer) Flush() error {
	if len(w.buf) > blockHead {
		w.block(kindRecords, w.buf)
		w.buf = w.buf[:blockHead]
	}
	return w.err
}

// block writes a block. The first bytes of b are room for its head.
func (w *Writer) block(kind byte, b []byte) {
	clear(b[:blockHead])
	b[0] = kind
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-blockHead))
	binary.LittleEndian.PutUint32(b[8:], sum(b[:8], b[blockHead:]))
	w.write(b)
}

func (w *Writer) write(b []byte) {
	if w.err == nil {
		_, w.err = w.w.Write(b)
	}
}

func sum(head, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, payload)
}

var (
	// ErrCut says that a recording ends within a block, as that of a process that was killed does.
	ErrCut = errors.New("recording: the file is cut off within a block")
	// ErrDamaged says that the checksum of a block is wrong. What follows it is not read.
	ErrDamaged = errors.New("recording: the checksum of a block is wrong")
)

// A Reader reads a recording, also while it is being written. It is not safe for concurrent use.
type Reader struct {
	r     *bufio.Reader
	epoch time.Time
	names map[uint16]string
	lost  uint64
	block []byte // of which the records in rest are not read yet
	rest  []byte
	err   error
}

// NewReader reads the header of a recording.
func NewReader(r io.Reader) (*Reader, error) {
	in := &Reader{r: bufio.NewReader(r), names: map[uint16]string{}}
	var h [headerSize]byte
	n, err := io.ReadFull(in.r, h[:])
	switch {
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, err
	case n < len(magic) || string(h[:7]) != magic[:7]:
		return nil, errors.New("recording: the file is no recording: it does not begin with weirrec")
	case h[7] != magic[7]:
		return nil, fmt.Errorf("recording: the file has version %d of the format: this program reads version %d", h[7], magic[7])
	case n < headerSize:
		return nil, ErrCut
	case binary.LittleEndian.Uint32(h[20:]) != crc32.Checksum(h[:20], castagnoli):
		return nil, errors.New("recording: the checksum of the header is wrong")
	case binary.LittleEndian.Uint32(h[16:]) != Size:
		return nil, fmt.Errorf("recording: records have %d bytes: want %d", binary.LittleEndian.Uint32(h[16:]), Size)
	}
	in.epoch = time.Unix(0, int64(binary.LittleEndian.Uint64(h[8:])))
	return in, nil
}

// Epoch returns the instant from which those of records count.
func (r *Reader) Epoch() time.Time { return r.epoch }

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
	var head [blockHead]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return ErrCut
		}
		return err // also io.EOF
	}
	n := binary.LittleEndian.Uint32(head[4:])
	if n > maxPayload {
		return ErrDamaged
	}
	if uint32(cap(r.block)) < n {
		r.block = make([]byte, n)
	}
	payload := r.block[:n]
	if _, err := io.ReadFull(r.r, payload); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return ErrCut
		}
		return err
	}
	if sum(head[:8], payload) != binary.LittleEndian.Uint32(head[8:]) {
		return ErrDamaged
	}
	switch head[0] {
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

// Package blockfile has the format that files of records share: a header of 24 bytes, then blocks with a checksum
// each. The documentation of package recording describes it byte by byte.
package blockfile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"time"
)

const (
	// HeaderSize is the size of the header, in bytes.
	HeaderSize = 24
	// MaxPayload bounds a payload, in bytes.
	MaxPayload = 1 << 20

	head = 12 // of a block
)

// A Format tells one kind of file from others.
type Format struct {
	Magic   string // 7 bytes, with which the file begins
	Version byte
	Size    uint32 // of a record, in bytes
	What    string // names what the file has, for errors, such as "recording"
}

var (
	// ErrCut says that a file ends within the header or within a block, as that of a process that was killed does.
	ErrCut = errors.New("the file is cut off within a block")
	// ErrDamaged says that the checksum of a block is wrong. What follows the block cannot be read.
	ErrDamaged = errors.New("the checksum of a block is wrong")
	// ErrSecond says that another file of the format begins where a block should.
	ErrSecond = errors.New("a second file begins here: give one file at a time")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(head, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, payload)
}

// A Writer writes a file. It is not safe for concurrent use.
type Writer struct {
	w    io.Writer
	err  error
	size int64
	buf  []byte // the last block
}

// NewWriter writes the header of a file, and returns a Writer. Instants of records count from epoch.
func NewWriter(w io.Writer, f Format, epoch time.Time) *Writer {
	out := &Writer{w: w}
	h := append(make([]byte, 0, HeaderSize), f.Magic...)
	h = append(h, f.Version)
	h = binary.LittleEndian.AppendUint64(h, uint64(epoch.UnixNano()))
	h = binary.LittleEndian.AppendUint32(h, f.Size)
	h = binary.LittleEndian.AppendUint32(h, crc32.Checksum(h, castagnoli))
	out.write(h)
	return out
}

// Block writes a block, in one piece.
func (w *Writer) Block(kind byte, payload []byte) {
	b := append(w.buf[:0], kind, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint32(b, sum(b, payload))
	w.buf = append(b, payload...)
	w.write(w.buf)
}

func (w *Writer) write(b []byte) {
	if w.err == nil {
		var n int
		n, w.err = w.w.Write(b)
		w.size += int64(n)
	}
}

// Err returns the first error of the io.Writer.
func (w *Writer) Err() error { return w.err }

// Size returns how many bytes were written.
func (w *Writer) Size() int64 { return w.size }

// A Reader reads a file, also while it is being written. It is not safe for concurrent use.
type Reader struct {
	r      *bufio.Reader
	format Format
	epoch  time.Time
	block  []byte
}

// NewReader reads the header of a file.
func NewReader(r io.Reader, f Format) (*Reader, error) {
	in := &Reader{r: bufio.NewReaderSize(r, 64<<10), format: f}
	var h [HeaderSize]byte
	n, err := io.ReadFull(in.r, h[:])
	switch {
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, err
	case !strings.HasPrefix(f.Magic, string(h[:min(n, len(f.Magic))])):
		return nil, fmt.Errorf("the file is no %s: it does not begin with %s", f.What, f.Magic)
	case n > len(f.Magic) && h[7] != f.Version:
		return nil, fmt.Errorf("the file has version %d of the format: this program reads version %d", h[7], f.Version)
	case n < HeaderSize:
		return nil, ErrCut
	case binary.LittleEndian.Uint32(h[20:]) != crc32.Checksum(h[:20], castagnoli):
		return nil, errors.New("the checksum of the header is wrong")
	case binary.LittleEndian.Uint32(h[16:]) != f.Size:
		return nil, fmt.Errorf("records have %d bytes: want %d", binary.LittleEndian.Uint32(h[16:]), f.Size)
	}
	in.epoch = time.Unix(0, int64(binary.LittleEndian.Uint64(h[8:])))
	return in, nil
}

// Epoch returns the instant from which those of records count.
func (r *Reader) Epoch() time.Time { return r.epoch }

// Next returns the next block. The payload is good until the next call. At the end the error is io.EOF.
func (r *Reader) Next() (kind byte, payload []byte, err error) {
	var h [head]byte
	if _, err := io.ReadFull(r.r, h[:]); err != nil {
		return 0, nil, cut(err, io.ErrUnexpectedEOF)
	}
	n := binary.LittleEndian.Uint32(h[4:])
	switch {
	case string(h[:len(r.format.Magic)]) == r.format.Magic:
		return 0, nil, ErrSecond
	case n > MaxPayload:
		return 0, nil, ErrDamaged
	case uint32(cap(r.block)) < n:
		r.block = make([]byte, n)
	}
	payload = r.block[:n]
	if _, err := io.ReadFull(r.r, payload); err != nil {
		return 0, nil, cut(err, io.EOF, io.ErrUnexpectedEOF)
	}
	if sum(h[:8], payload) != binary.LittleEndian.Uint32(h[8:]) {
		return 0, nil, ErrDamaged
	}
	return h[0], payload, nil
}

// cut returns ErrCut in place of some errors.
func cut(err error, ends ...error) error {
	for _, end := range ends {
		if errors.Is(err, end) {
			return ErrCut
		}
	}
	return err
}

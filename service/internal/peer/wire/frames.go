package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// ReadSize is the size of the buffer through which a connection is read. A larger frame gets memory of
	// its own.
	ReadSize = 32 << 10
	// keptBuffer bounds the buffers for writing that a connection keeps.
	keptBuffer = 256 << 10
	// fullBuffer is the size of what is not written yet, above which Room waits.
	fullBuffer = 1 << 20
)

// MaxFrame bounds a frame, in bytes.
const MaxFrame = 16 << 20

// A Writer collects frames. Frames that are ready at the same time share a write. It is safe for
// concurrent use.
type Writer struct {
	conn net.Conn

	mu      sync.Mutex // guards what follows. It is held from Open to Close
	buf     []byte     // frames that are not written
	spare   []byte
	begin   int       // of the present frame in buf
	writing bool      // a goroutine writes
	since   time.Time // when it began
	err     error     // why no more is written
	written sync.Cond // a goroutine has written
}

// NewWriter returns a Writer to a connection.
func NewWriter(c net.Conn) *Writer {
	w := &Writer{conn: c}
	w.written.L = &w.mu
	return w
}

// Open begins to add frames. Then Close must be called. It fails after a write has failed.
func (w *Writer) Open() error {
	w.mu.Lock()
	if w.err != nil {
		w.mu.Unlock()
		return w.err
	}
	return nil
}

// Close ends what Open began.
func (w *Writer) Close() { w.mu.Unlock() }

// Start begins a frame. The caller appends the payload, and calls Finish.
func (w *Writer) Start(id uint64, k Kind) []byte {
	w.begin = len(w.buf)
	b := append(w.buf, 0, 0, 0, 0)
	return append(binary.AppendUvarint(b, id), byte(k))
}

// Finish ends a frame with its payload, and returns its size. If it is too large, it is dropped, and
// ok is false.
func (w *Writer) Finish(b []byte) (size int, ok bool) {
	size = len(b) - w.begin - lengthSize
	if size > MaxFrame {
		w.buf = b[:w.begin]
		return size, false
	}
	binary.BigEndian.PutUint32(b[w.begin:], uint32(size))
	w.buf = b
	return size, true
}

// Fits reports whether the frame that was started, of which b has the first part, is not too large yet.
func (w *Writer) Fits(b []byte) bool { return len(b)-w.begin <= MaxFrame+lengthSize }

// Drop drops the frame that was started or finished last. b begins with it and those before it.
func (w *Writer) Drop(b []byte) { w.buf = b[:w.begin] }

// Send adds a frame with a payload. It does not write it.
func (w *Writer) Send(id uint64, k Kind, payload []byte) error {
	if err := w.Open(); err != nil {
		return err
	}
	defer w.Close()
	if _, ok := w.Finish(append(w.Start(id, k), payload...)); !ok {
		return ErrTooLarge
	}
	return nil
}

// Flush writes all frames, unless another goroutine writes: then that does it.
func (w *Writer) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writing {
		return
	}
	for len(w.buf) > 0 && w.err == nil {
		out := w.buf
		w.buf, w.spare = w.spare[:0], nil
		w.writing, w.since = true, time.Now()
		w.mu.Unlock()
		_, err := w.conn.Write(out)
		w.mu.Lock()
		if w.writing = false; cap(out) <= keptBuffer {
			w.spare = out[:0]
		}
		if err != nil {
			w.failLocked(err)
		}
		w.written.Broadcast()
	}
}

// Room waits until at most fullBuffer bytes are not written. Another goroutine must write.
func (w *Writer) Room() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.buf) > fullBuffer && w.writing && w.err == nil {
		w.written.Wait()
	}
}

// Fail makes all further writes fail.
func (w *Writer) Fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(err)
}

func (w *Writer) failLocked(err error) {
	if w.err == nil {
		w.err = err
	}
	w.buf = nil
	w.written.Broadcast()
}

// Stuck reports whether a write takes longer than d.
func (w *Writer) Stuck(d time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writing && time.Since(w.since) > d
}

// Failed returns why no more is written.
func (w *Writer) Failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// A Frame is a message.
type Frame struct {
	ID      uint64
	Kind    Kind
	Payload []byte // valid until the next frame is read
}

// A Reader reads frames.
type Reader struct {
	in   *bufio.Reader
	used int // bytes of the last frame, in the buffer
	most int // bytes of a frame
}

// NewReader returns a Reader of a connection.
func NewReader(in *bufio.Reader) *Reader { return &Reader{in: in, most: MaxFrame} }

// Ready reports whether the next frame has arrived as a whole.
func (r *Reader) Ready() bool {
	have := r.in.Buffered() - r.used
	if have < lengthSize {
		return false
	}
	b, _ := r.in.Peek(r.used + lengthSize)
	return uint32(have-lengthSize) >= binary.BigEndian.Uint32(b[r.used:])
}

// Read reads the next frame.
func (r *Reader) Read() (f Frame, err error) {
	_, _ = r.in.Discard(r.used)
	r.used = 0
	head, err := r.in.Peek(lengthSize)
	if err != nil {
		return f, err
	}
	n := int(binary.BigEndian.Uint32(head))
	if n < minFrame || n > r.most {
		return f, fmt.Errorf("a frame of %d bytes: want %d to %d", n, minFrame, r.most)
	}
	var b []byte
	if lengthSize+n <= r.in.Size() {
		if b, err = r.in.Peek(lengthSize + n); err != nil {
			return f, err
		}
		r.used, b = len(b), b[lengthSize:]
	} else {
		_, _ = r.in.Discard(lengthSize)
		if b, err = readLarge(r.in, n); err != nil {
			return f, err
		}
	}
	id, size := binary.Uvarint(b)
	if size <= 0 || size >= len(b) {
		return f, errors.New("a frame without a number and a kind")
	}
	return Frame{id, Kind(b[size]), b[size+1:]}, nil
}

// readLarge reads n bytes into memory that grows as they come.
func readLarge(in io.Reader, n int) ([]byte, error) {
	b := make([]byte, min(n, 2*ReadSize))
	for have := 0; ; {
		read, err := io.ReadFull(in, b[have:])
		if have += read; err != nil || have == n {
			return b, err
		}
		more := make([]byte, min(n, 2*len(b)))
		copy(more, b)
		b = more
	}
}

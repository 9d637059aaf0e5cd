package peer

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
	// readSize is the buffer of a connection for reading. Larger frames are read into memory of
	// their own.
	readSize = 32 << 10
	// keptBuffer bounds the buffers for writing that a connection keeps.
	keptBuffer = 256 << 10
	// fullBuffer is the size of what is not written yet, above which room waits.
	fullBuffer = 1 << 20
)

// A frameWriter collects frames. Frames that are ready at the same time share a write. It is safe for
// concurrent use.
type frameWriter struct {
	conn net.Conn

	mu      sync.Mutex // guards what follows. It is held from open to close
	buf     []byte     // frames that are not written
	spare   []byte
	begin   int       // of the present frame in buf
	writing bool      // a goroutine writes
	since   time.Time // when it began
	err     error     // why no more is written
	written sync.Cond // a goroutine has written
}

func newFrameWriter(c net.Conn) *frameWriter {
	w := &frameWriter{conn: c}
	w.written.L = &w.mu
	return w
}

// open begins to add frames. Then close must be called. It fails after a write has failed.
func (w *frameWriter) open() error {
	w.mu.Lock()
	if w.err != nil {
		w.mu.Unlock()
		return w.err
	}
	return nil
}

func (w *frameWriter) close() { w.mu.Unlock() }

// start begins a frame. The caller appends the payload, and calls finish.
func (w *frameWriter) start(id uint64, k kind) []byte {
	w.begin = len(w.buf)
	b := append(w.buf, 0, 0, 0, 0)
	return append(binary.AppendUvarint(b, id), byte(k))
}

// finish ends a frame with its payload, and returns its size. If it is too large, it is dropped, and
// ok is false.
func (w *frameWriter) finish(b []byte) (size int, ok bool) {
	size = len(b) - w.begin - lengthSize
	if size > MaxFrame {
		w.buf = b[:w.begin]
		return size, false
	}
	binary.BigEndian.PutUint32(b[w.begin:], uint32(size))
	w.buf = b
	return size, true
}

// drop drops the frame that was started or finished last. b begins with it and those before it.
func (w *frameWriter) drop(b []byte) { w.buf = b[:w.begin] }

// send adds a frame with a payload. It does not write it.
func (w *frameWriter) send(id uint64, k kind, payload []byte) error {
	if err := w.open(); err != nil {
		return err
	}
	defer w.close()
	if _, ok := w.finish(append(w.start(id, k), payload...)); !ok {
		return ErrTooLarge
	}
	return nil
}

// flush writes all frames, unless another goroutine writes: then that does it.
func (w *frameWriter) flush() {
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

// room waits until at most fullBuffer bytes are not written. Another goroutine must write.
func (w *frameWriter) room() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.buf) > fullBuffer && w.writing && w.err == nil {
		w.written.Wait()
	}
}

// fail makes all further writes fail.
func (w *frameWriter) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(err)
}

func (w *frameWriter) failLocked(err error) {
	if w.err == nil {
		w.err = err
	}
	w.buf = nil
	w.written.Broadcast()
}

// stuck reports whether a write takes longer than d.
func (w *frameWriter) stuck(d time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writing && time.Since(w.since) > d
}

// A frame is a message.
type frame struct {
	id      uint64
	kind    kind
	payload []byte // valid until the next frame is read
}

// A frameReader reads frames.
type frameReader struct {
	in   *bufio.Reader
	used int // bytes of the last frame, in the buffer
	most int // bytes of a frame
}

func newFrameReader(in *bufio.Reader) *frameReader { return &frameReader{in: in, most: MaxFrame} }

// ready reports whether the next frame has arrived as a whole.
func (r *frameReader) ready() bool {
	have := r.in.Buffered() - r.used
	if have < lengthSize {
		return false
	}
	b, _ := r.in.Peek(r.used + lengthSize)
	return uint32(have-lengthSize) >= binary.BigEndian.Uint32(b[r.used:])
}

// read reads the next frame.
func (r *frameReader) read() (f frame, err error) {
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
	return frame{id, kind(b[size]), b[size+1:]}, nil
}

// readLarge reads n bytes into memory that grows as they come.
func readLarge(in io.Reader, n int) ([]byte, error) {
	b := make([]byte, min(n, 2*readSize))
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

// failed returns why no more is written.
func (w *frameWriter) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

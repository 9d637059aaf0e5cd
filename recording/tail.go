package recording

import (
	"sync"
	"time"
)

// A Tail reads the records that a Recorder keeps, and the ones that come later. Others that read the
// Recorder do not change what it reads. It is safe for concurrent use.
type Tail struct {
	recorder *Recorder
	copying  sync.Mutex // one Copy at a time
	buf      block      // guarded by copying

	// The mutex of the Recorder guards what follows.
	begun bool
	next  uint64 // the first block that has not been read to its end
	read  int    // records of it that have been read
	seen  uint64 // records that have been read or lost
	lost  uint64
}

// Tail returns a Tail that begins with the oldest record that is kept when Copy is called first.
func (r *Recorder) Tail() *Tail { return &Tail{recorder: r} }

// Lost returns how many records have been overwritten before Copy has read them, or were in a Copy that
// failed.
func (t *Tail) Lost() uint64 {
	t.recorder.mu.Lock()
	defer t.recorder.mu.Unlock()
	t.skipLocked()
	return t.lost
}

// skipLocked skips what has been overwritten.
func (t *Tail) skipLocked() {
	if r := t.recorder; t.begun && t.next < r.oldest {
		t.lost += r.gone - t.seen
		t.next, t.read, t.seen = r.oldest, 0, r.gone
	}
}

// Copy writes the records that it has not written before and that ended since an instant, the names of the
// classes, and how many were lost, and flushes w. After an error of w, the records that it was to get are lost.
func (t *Tail) Copy(w *Writer, since time.Duration) error {
	t.copying.Lock()
	defer t.copying.Unlock()
	r := t.recorder
	for i := range r.stripes {
		s := &r.stripes[i]
		s.mu.Lock()
		if s.block.n > 0 {
			s.block = r.swap(s.block)
		}
		s.mu.Unlock()
	}
	r.mu.Lock()
	end := r.next // blocks that fill meanwhile are for the next call
	if !t.begun {
		t.begun, t.next, t.seen = true, r.oldest, r.gone
	}
	r.mu.Unlock()
	t.name(w) // first, so that they are also in a file that is cut off
	written := uint64(0)
	for t.take(end) {
		for i := range t.buf.n {
			if p := &t.buf.records[i]; p.end() >= since {
				w.add(p)
				written++
			}
		}
	}
	t.name(w) // the latest block can have got records of new classes
	_ = w.Lost(t.Lost())
	err := w.Flush()
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		t.lost += written
	}
	return err
}

// name writes the names of the classes that w does not have yet. Flush returns the error.
func (t *Tail) name(w *Writer) {
	for name, number := range t.recorder.classes.all() {
		_ = w.Name(number, name)
	}
}

// take copies the records of the next block before end, if there is one. The latest block may get more of them.
func (t *Tail) take(end uint64) bool {
	r := t.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	t.skipLocked()
	if t.next >= end {
		return false
	}
	b := r.full[t.next%uint64(len(r.full))]
	t.buf.n = copy(t.buf.records[:], b.records[t.read:b.n])
	t.seen += uint64(t.buf.n)
	if t.read = b.n; t.next+1 < r.next {
		t.next, t.read = t.next+1, 0
		return true
	}
	return t.buf.n > 0
}

package proxy

import (
	"net/http"
	"time"
)

// A streamWriter bounds the time of each write to a stream of HTTP/2. Its client may not read
// the stream while the connection takes other bytes. For HTTP/1, Listener bounds the time.
type streamWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	timer   *time.Timer // ends a write; nil before the first
}

func newStreamWriter(w http.ResponseWriter, timeout time.Duration) *streamWriter {
	return &streamWriter{ResponseWriter: w, control: http.NewResponseController(w), timeout: timeout}
}

// cut resets the stream.
func (w *streamWriter) cut() { _ = w.control.SetWriteDeadline(time.Now()) }

func (w *streamWriter) begin() {
	if w.timer == nil {
		w.timer = time.AfterFunc(w.timeout, w.cut)
	} else {
		w.timer.Reset(w.timeout)
	}
}

// Write implements http.ResponseWriter.
func (w *streamWriter) Write(b []byte) (int, error) {
	w.begin()
	defer w.timer.Stop()
	return w.ResponseWriter.Write(b)
}

// FlushError is for http.ResponseController.
func (w *streamWriter) FlushError() error {
	w.begin()
	defer w.timer.Stop()
	return w.control.Flush()
}

// finish bounds the time for what net/http sends after the handler has returned.
func (w *streamWriter) finish() { _ = w.control.SetWriteDeadline(time.Now().Add(w.timeout)) }

// Unwrap is for http.ResponseController.
func (w *streamWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

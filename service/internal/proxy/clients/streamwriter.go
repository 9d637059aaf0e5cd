package clients

import (
	"net/http"
	"time"
)

// A StreamWriter bounds the time of each write to a stream of HTTP/2. Its client may not read
// the stream while the connection takes other bytes. For HTTP/1, Listener bounds the time.
type StreamWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration // not positive: none
	timer   *time.Timer   // ends a write; nil before the first
}

func NewStreamWriter(w http.ResponseWriter, timeout time.Duration) *StreamWriter {
	return &StreamWriter{ResponseWriter: w, control: http.NewResponseController(w), timeout: timeout}
}

// cut resets the stream.
func (w *StreamWriter) cut() { _ = w.control.SetWriteDeadline(time.Now()) }

func (w *StreamWriter) begin() {
	switch {
	case w.timeout <= 0:
	case w.timer == nil:
		w.timer = time.AfterFunc(w.timeout, w.cut)
	default:
		w.timer.Reset(w.timeout)
	}
}

func (w *StreamWriter) end() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// WriteHeader implements http.ResponseWriter. If the client resets the stream, net/http returns from
// it while another goroutine still reads the header of a 1xx answer, which callers change then. It
// reads a copy if that header has a Content-Length, which it does not send.
func (w *StreamWriter) WriteHeader(code int) {
	h := w.Header()
	if code >= 200 || len(h["Content-Length"]) > 0 {
		w.ResponseWriter.WriteHeader(code)
		return
	}
	h["Content-Length"] = nil
	w.ResponseWriter.WriteHeader(code)
	delete(h, "Content-Length")
}

// Write implements http.ResponseWriter.
func (w *StreamWriter) Write(b []byte) (int, error) {
	w.begin()
	defer w.end()
	return w.ResponseWriter.Write(b)
}

// FlushError is for http.ResponseController.
func (w *StreamWriter) FlushError() error {
	w.begin()
	defer w.end()
	return w.control.Flush()
}

// Finish bounds the time for what net/http sends after the handler has returned.
func (w *StreamWriter) Finish() {
	if w.timeout > 0 {
		_ = w.control.SetWriteDeadline(time.Now().Add(w.timeout))
	}
}

// Unwrap is for http.ResponseController.
func (w *StreamWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

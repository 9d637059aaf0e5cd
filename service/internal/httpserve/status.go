package httpserve

import "net/http"

// A StatusWriter records the status of an answer.
type StatusWriter struct {
	http.ResponseWriter
	Status int // StatusOK until there is one
}

func (w *StatusWriter) WriteHeader(status int) {
	if status >= 200 {
		w.Status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *StatusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Package trace writes the requests of a load test as CSV: one Record for each
// request.
package trace

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"time"
)

// A Record describes one request. Instants count from the beginning of the run.
type Record struct {
	Intended time.Duration // when the request should have been sent
	Start    time.Duration // when it was sent
	End      time.Duration // when its answer was complete, or the client gave up
	Status   int           // of the answer; 0 if it has none, or there was none, for the Reason given
	Inflight int           // requests in flight when it was sent, this one included; 0 if that is not known
	Reason   string        // why there was no answer, why a proxy refused, or the name of the error in the answer
}

// Reasons of a Record without an answer.
const (
	Timeout    = "timeout"    // the client gave up
	Refused    = "refused"    // the connection was refused
	Reset      = "reset"      // the connection broke
	Unresolved = "unresolved" // the name of the host has no address
	Untrusted  = "untrusted"  // the TLS handshake failed, such as for a certificate of an unknown authority
	Exhausted  = "exhausted"  // the machine of the client has no more ports, files or buffers
	Canceled   = "canceled"   // the run ended
	Unsent     = "unsent"     // the client had too many requests in flight
	Failed     = "failed"     // anything else
	Sent       = "sent"       // the client expects no answer
)

// Latency returns the time from the intended start to the end: the delay for a user that
// arrives at the intended start.
func (r Record) Latency() time.Duration { return r.End - r.Intended }

// Success reports whether the status means success.
func (r Record) Success() bool { return r.Status == 101 || r.Status >= 200 && r.Status < 400 }

// Rejected reports whether the status means a rejection because of load.
func (r Record) Rejected() bool { return r.Status == 429 || r.Status == 503 }

// Failed reports whether the request was neither answered with success nor canceled. A
// request without an answer to expect has not failed once it is sent.
func (r Record) Failed() bool {
	return !r.Success() && (r.Status != 0 || r.Reason != Sent && r.Reason != Canceled)
}

// Label returns the status and the reason, if there are any: "200", "503 queue_full",
// "timeout".
func (r Record) Label() string {
	switch {
	case r.Status == 0:
		return r.Reason
	case r.Reason == "":
		return strconv.Itoa(r.Status)
	default:
		return strconv.Itoa(r.Status) + " " + r.Reason
	}
}

// A Writer writes records as CSV. It returns the errors of the io.Writer. It is not
// safe for concurrent use.
type Writer struct{ csv *csv.Writer }

// NewWriter returns a Writer, and writes the header line.
func NewWriter(w io.Writer) *Writer {
	t := &Writer{csv.NewWriter(w)}
	_ = t.csv.Write([]string{"intended_s", "start_s", "end_s", "status", "reason"}) // Flush returns the error
	return t
}

// Write writes a record.
func (t *Writer) Write(r Record) error {
	return t.csv.Write([]string{seconds(r.Intended), seconds(r.Start), seconds(r.End), strconv.Itoa(r.Status), r.Reason})
}

// Flush writes what is still buffered. Call it at the end.
func (t *Writer) Flush() error {
	t.csv.Flush()
	return t.csv.Error()
}

// seconds formats d in seconds, exactly.
func seconds(d time.Duration) string {
	sign, u := "", uint64(d)
	if d < 0 {
		sign, u = "-", -u
	}
	return fmt.Sprintf("%s%d.%09d", sign, u/1e9, u%1e9)
}

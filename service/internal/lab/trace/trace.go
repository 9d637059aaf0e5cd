// Package trace reads and writes the requests of a load test as CSV: one Record for
// each request.
package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// A Record describes one request. Instants count from the beginning of the run.
type Record struct {
	Intended time.Duration // when the request should have been sent
	Start    time.Duration // when it was sent
	End      time.Duration // when its answer was complete, or the client gave up
	Status   int           // of the answer; 0 if there was none, for the Reason given
	Reason   string        // why there was no answer, or why a proxy refused; no commas, quotes or line breaks
}

// Reasons of a Record without an answer.
const (
	Timeout  = "timeout"  // the client gave up
	Refused  = "refused"  // the connection was refused
	Reset    = "reset"    // the connection broke
	Canceled = "canceled" // the run ended
	Unsent   = "unsent"   // the client had too many requests in flight
	Failed   = "failed"   // anything else
)

// Latency returns the time from the intended start to the end: the delay for a user that
// arrives at the intended start.
func (r Record) Latency() time.Duration { return r.End - r.Intended }

// Success reports whether the status means success.
func (r Record) Success() bool { return r.Status == 101 || r.Status >= 200 && r.Status < 400 }

// Rejected reports whether the status means a rejection because of load.
func (r Record) Rejected() bool { return r.Status == 429 || r.Status == 503 }

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

const header = "intended_s,start_s,end_s,status,reason"

// A Writer writes records as CSV. It returns the errors of the io.Writer. It is not
// safe for concurrent use.
type Writer struct {
	w   *bufio.Writer
	buf []byte
}

// NewWriter returns a Writer, and writes the header line.
func NewWriter(w io.Writer) *Writer {
	t := &Writer{w: bufio.NewWriter(w)}
	_, _ = t.w.WriteString(header + "\n") // bufio keeps the error for the next write
	return t
}

// Write writes a record. Characters in the reason that CSV would have to quote
// become underscores.
func (t *Writer) Write(r Record) error {
	b := t.buf[:0]
	for _, d := range []time.Duration{r.Intended, r.Start, r.End} {
		b = append(appendSeconds(b, d), ',')
	}
	b = append(strconv.AppendInt(b, int64(r.Status), 10), ',')
	b = append(b, plain(r.Reason)...)
	t.buf = append(b, '\n')
	_, err := t.w.Write(t.buf)
	return err
}

// Flush writes what is still buffered. Call it at the end.
func (t *Writer) Flush() error { return t.w.Flush() }

func plain(reason string) string {
	if !strings.ContainsAny(reason, ",\"\r\n") {
		return reason
	}
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(",\"\r\n", r) {
			return '_'
		}
		return r
	}, reason)
}

// appendSeconds appends d in seconds, exactly.
func appendSeconds(b []byte, d time.Duration) []byte {
	u := uint64(d)
	if d < 0 {
		b = append(b, '-')
		u = -u
	}
	return fmt.Appendf(b, "%d.%09d", u/1e9, u%1e9)
}

// A Reader reads records from CSV. It is not safe for concurrent use.
type Reader struct {
	s    *bufio.Scanner
	line int
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader { return &Reader{s: bufio.NewScanner(r)} }

// Read returns the next record, or io.EOF after the last. Other errors name
// the line.
func (t *Reader) Read() (Record, error) {
	if t.line == 0 {
		if line, err := t.next(); err != nil {
			return Record{}, err
		} else if line != header {
			return Record{}, fmt.Errorf("trace: line 1: not a trace: want %s", header)
		}
	}
	line, err := t.next()
	if err != nil {
		return Record{}, err
	}
	r, err := parse(line)
	if err != nil {
		return Record{}, fmt.Errorf("trace: line %d: %w", t.line, err)
	}
	return r, nil
}

func (t *Reader) next() (string, error) {
	if !t.s.Scan() {
		if err := t.s.Err(); err != nil {
			return "", fmt.Errorf("trace: line %d: %w", t.line+1, err)
		}
		return "", io.EOF
	}
	t.line++
	return t.s.Text(), nil
}

func parse(line string) (r Record, err error) {
	fields := strings.Split(line, ",")
	if len(fields) != 5 {
		return r, fmt.Errorf("%d fields: want 5", len(fields))
	}
	for i, d := range []*time.Duration{&r.Intended, &r.Start, &r.End} {
		if *d, err = parseSeconds(fields[i]); err != nil {
			return r, err
		}
	}
	if r.Status, err = strconv.Atoi(fields[3]); err != nil {
		return r, fmt.Errorf("status %q: want a number", fields[3])
	}
	r.Reason = fields[4]
	return r, nil
}

// parseSeconds is the inverse of appendSeconds. It does not round to floating point.
func parseSeconds(s string) (time.Duration, error) {
	whole, fraction, ok := strings.Cut(s, ".")
	digits, negative := strings.CutPrefix(whole, "-")
	seconds, err := strconv.ParseUint(digits, 10, 63)
	var nanos uint64
	if err == nil && ok && len(fraction) == 9 {
		nanos, err = strconv.ParseUint(fraction, 10, 32)
	} else if err == nil {
		err = errors.New("want nine decimals")
	}
	if err != nil || seconds > 1<<63/1_000_000_000 {
		return 0, fmt.Errorf("seconds %q: want a number with nine decimals", s)
	}
	u := seconds*1e9 + nanos
	if negative {
		u = -u
	} else if u > 1<<63-1 {
		return 0, fmt.Errorf("seconds %q: too many", s)
	}
	return time.Duration(u), nil
}

// Package convert reads access logs of nginx and Envoy, the output of k6 and CSV as recordings (package recording), and writes
// recordings as CSV.
//
// A source has less than a recording. What it lacks is told by Missing: the requests in flight are then counted from the starts
// and ends, and other fields are zero.
package convert

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/recorded"
)

// A Format is the format of a source.
type Format string

// The formats.
const (
	Recording Format = "recording"
	CSV       Format = "csv"
	Nginx     Format = "nginx"
	Envoy     Format = "envoy"
	K6        Format = "k6"
)

// Formats are all formats.
func Formats() []Format { return []Format{Recording, CSV, Nginx, Envoy, K6} }

// A Source says how to read a file.
type Source struct {
	// Format of the file. If empty, Detect finds it.
	Format Format
	// Layout is the log_format of nginx, or the format of Envoy. If empty, DefaultNginx or DefaultEnvoy.
	Layout string
}

// A Request is a record, whose class has a name. Instants count from 1970.
type Request struct {
	recording.Record
	Class string
}

// A Log is the content of a file.
type Log struct {
	Format   Format
	Requests []Request // by Intended
	Missing  []string  // what the source lacks
	Skipped  int       // lines that are no requests
	Lost     uint64    // of a recording
	Cut      error     // why a recording was not read to its end
	FirstBad string    // the first of the lines that were skipped, and why
}

// A parser reads lines.
type parser interface {
	// parse reads a line, with the further lines of its cells. It returns errSkip if the line is of another kind.
	parse(line []byte, r *Request) error
	// missing returns what the lines lack. It is called after parse.
	missing() []string
}

var errSkip = errors.New("not a request")

// Detect tells the format of a file by its first bytes; empty if it is none of them.
func Detect(begin []byte) Format {
	first, _, _ := bytes.Cut(begin, []byte("\n"))
	switch text := strings.TrimSpace(string(first)); {
	case bytes.HasPrefix(begin, []byte("weirrec")):
		return Recording
	case strings.HasPrefix(text, "{") && strings.Contains(text, `"type":`) && strings.Contains(text, `"data":`):
		return K6
	case isHeader(text):
		return CSV
	case matches(DefaultNginx, newNginx, first):
		return Nginx
	case matches(DefaultEnvoy, newEnvoy, first):
		return Envoy
	}
	return ""
}

func matches(layout string, compile func(string) (parser, error), line []byte) bool {
	p, err := compile(layout)
	return err == nil && p.parse(line, new(Request)) == nil
}

// mark is the mark of UTF-8 with which spreadsheets begin CSV.
const mark = "\ufeff"

// maxLine bounds a line, in bytes.
const maxLine = 1 << 20

// Read reads a file.
func Read(in io.Reader, from Source) (*Log, error) {
	buffered := bufio.NewReaderSize(in, 64<<10)
	if begin, _ := buffered.Peek(len(mark)); string(begin) == mark {
		_, _ = buffered.Discard(len(mark))
	}
	begin, err := buffered.Peek(4 << 10)
	switch {
	case len(begin) > 0:
	case err == io.EOF:
		return nil, errors.New("the file is empty")
	default:
		return nil, err
	}
	if from.Format == "" {
		switch from.Format = Detect(begin); {
		case from.Format == "" && isCombined(begin):
			return nil, errors.New("the format is combined, which has no durations: give nginx the log_format " + DefaultNginx)
		case from.Format == "":
			return nil, errors.New("the format is not known by the first line: give it by --from, and the log format by --log-format")
		}
	}
	if from.Format == Recording {
		return readRecording(buffered)
	}
	p, err := from.parser()
	if err != nil {
		return nil, err
	}
	log := &Log{Format: from.Format}
	lines := bufio.NewScanner(buffered)
	lines.Buffer(nil, maxLine)
	if from.Format == CSV {
		lines.Split(splitCSV)
	}
	for n, next := 1, 1; lines.Scan(); n = next {
		next += 1 + bytes.Count(lines.Bytes(), []byte("\n"))
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var r Request
		switch err := p.parse(line, &r); {
		case err == errSkip:
		case err != nil:
			if log.Skipped++; log.FirstBad == "" {
				log.FirstBad = fmt.Sprintf("line %d: %v", n, err)
			}
		default:
			log.Requests = append(log.Requests, r)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(log.Requests) == 0 {
		return nil, fmt.Errorf("it has no requests%s", prefixed(": ", log.FirstBad))
	}
	log.Missing = p.missing()
	log.sort()
	if slices.Contains(log.Missing, inflight) {
		countInflight(log.Requests)
	}
	return log, nil
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

func (s Source) parser() (parser, error) {
	switch s.Format {
	case Nginx:
		return newNginx(cmp.Or(s.Layout, DefaultNginx))
	case Envoy:
		return newEnvoy(cmp.Or(s.Layout, DefaultEnvoy))
	case K6:
		return k6{}, nil
	case CSV:
		return new(csvFile), nil
	}
	return nil, fmt.Errorf("unknown format %q", s.Format)
}

// inflight is the name in Missing of a field that can be counted.
const inflight = "requests in flight (counted from starts and ends)"

// countInflight sets Inflight of requests that worked, by their starts and ends.
func countInflight(all []Request) {
	type event struct {
		at      time.Duration
		request int // -1 for an end
	}
	var events []event
	for i := range all {
		if r := &all[i]; r.Outcome.Worked() {
			events = append(events, event{r.Start, i}, event{max(r.End, r.Start+1), -1})
		}
	}
	slices.SortFunc(events, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.request, b.request)) })
	n := 0
	for _, e := range events {
		if e.request < 0 {
			n--
			continue
		}
		n++
		all[e.request].Inflight = n
	}
}

// readRecording reads a recording.
func readRecording(in io.Reader) (*Log, error) {
	f, err := recorded.Read(in, "recording")
	if err != nil {
		return nil, err
	}
	log, epoch := &Log{Format: Recording, Lost: f.Lost, Cut: f.Cut}, time.Duration(f.Epoch.UnixNano())
	for _, r := range f.Records {
		for _, at := range []*time.Duration{&r.Intended, &r.Start, &r.End} {
			*at += epoch
		}
		if r.Deadline != 0 {
			r.Deadline += epoch
		}
		log.Requests = append(log.Requests, Request{r, f.Class(r.Class)})
	}
	log.sort()
	return log, nil
}

// sort puts the requests into the order of Intended.
func (l *Log) sort() {
	slices.SortStableFunc(l.Requests, func(a, b Request) int { return cmp.Compare(a.Intended, b.Intended) })
}

// WriteRecording writes a log as a recording.
func (l *Log) WriteRecording(out io.Writer) error {
	first := time.Duration(0)
	if len(l.Requests) > 0 {
		first = l.Requests[0].Intended
	}
	w := recording.NewWriter(out, time.Unix(0, int64(first)))
	classes := map[string]uint16{"": 0}
	for _, r := range l.Requests {
		number, ok := classes[r.Class]
		if !ok {
			if number = recording.Others; len(classes) <= recording.MaxClasses {
				number = uint16(len(classes))
			}
			classes[r.Class] = number
			if number != recording.Others {
				_ = w.Name(number, r.Class) // Flush returns the error
			}
		}
		rec := r.Record
		rec.Class = number
		rec.Intended, rec.Start, rec.End = rec.Intended-first, rec.Start-first, rec.End-first
		if rec.Deadline != 0 {
			rec.Deadline -= first
		}
		_ = w.Write(rec)
	}
	_ = w.Lost(l.Lost)
	return w.Flush()
}

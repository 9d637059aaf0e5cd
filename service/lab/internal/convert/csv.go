package convert

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/recorded"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// columns has the names of the columns. Instants are in seconds since 1970, times in seconds.
var columns = []string{"intended", "wait", "start", "end", "deadline", "inflight", "class", "tenant", "outcome", "origin"}

// csvFile reads CSV: a header with some of the columns in any order, then a line for each request. It also reads what
// weirlab load --trace writes.
type csvFile struct {
	names  []string // nil before the header
	traced bool
}

// traceColumns has the names that package trace gives. Its instants begin at 0.
var traceColumns = []string{"intended_s", "start_s", "end_s", "status", "reason"}

func isHeader(line string) bool {
	names, _ := csv.NewReader(strings.NewReader(line)).Read() // a line of another format may be no CSV
	return slices.Contains(names, "intended") && slices.Contains(names, "end") || slices.Contains(names, "intended_s") && slices.Contains(names, "end_s")
}

// maxCell bounds a line whose cells have further lines, in bytes.
const maxCell = 64 << 10

// splitCSV is a bufio.SplitFunc. A line ends outside of quotes; if the quotes do not close within maxCell, at its first end.
func splitCSV(data []byte, atEOF bool) (advance int, token []byte, err error) {
	quoted := false
	for i, c := range data[:min(len(data), maxCell)] {
		switch {
		case c == '"':
			quoted = !quoted
		case c == '\n' && !quoted:
			return i + 1, data[:i], nil
		}
	}
	switch {
	case len(data) >= maxCell || quoted && atEOF:
		return bufio.ScanLines(data, atEOF)
	case atEOF && len(data) > 0:
		return len(data), data, nil
	}
	return 0, nil, nil
}

func (c *csvFile) missing() (all []string) {
	for _, name := range columns {
		switch {
		case c.traced && name == "inflight", !c.has(name) && name == "inflight":
			all = append(all, inflight)
		case c.traced && (name == "intended" || name == "start" || name == "end" || name == "outcome"):
		case !c.has(name):
			all = append(all, name)
		}
	}
	return all
}

func (c *csvFile) parse(line []byte, r *Request) error {
	in := csv.NewReader(bytes.NewReader(line))
	cells, err := in.Read()
	if err != nil {
		return err
	}
	if c.names == nil {
		return c.header(cells)
	}
	if len(cells) != len(c.names) {
		return fmt.Errorf("it has %d cells: the header has %d", len(cells), len(c.names))
	}
	if c.traced {
		return c.trace(cells, r)
	}
	r.Start = -1
	for i, name := range c.names {
		if cells[i] == "" {
			continue
		}
		if err := set(r, name, cells[i]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if r.Start < 0 {
		r.Start = r.Intended + r.Wait
	}
	if r.End < r.Start || r.Start < r.Intended {
		return errors.New("want intended <= start <= end")
	}
	return nil
}

// header reads the header.
func (c *csvFile) header(cells []string) error {
	if !isHeader(strings.Join(cells, ",")) {
		return fmt.Errorf("the header must have intended and end, and may have %s", strings.Join(columns, ", "))
	}
	c.names, c.traced = cells, slices.Contains(cells, "intended_s")
	known := columns
	if c.traced {
		known = traceColumns
	}
	for _, name := range cells {
		if !slices.Contains(known, name) {
			c.names = nil
			return fmt.Errorf("unknown column %q: want some of %s", name, strings.Join(known, ", "))
		}
	}
	return errSkip
}

// has reports whether there is a column.
func (c *csvFile) has(name string) bool { return slices.Contains(c.names, name) }

func set(r *Request, name, text string) (err error) {
	number := func(most int) (n int) {
		if n, err = strconv.Atoi(text); err == nil && (n < 0 || n > most) {
			err = fmt.Errorf("%d: must be in [0, %d]", n, most)
		}
		return n
	}
	switch name {
	case "intended":
		r.Intended, err = seconds(text)
	case "start":
		r.Start, err = seconds(text)
	case "end":
		r.End, err = seconds(text)
	case "wait":
		r.Wait, err = seconds(text)
	case "deadline":
		r.Deadline, err = seconds(text)
	case "inflight":
		r.Inflight = number(1 << 30)
	case "class":
		r.Class = text
	case "tenant":
		r.Tenant = uint16(number(65535))
	case "origin":
		r.Origin = uint8(number(255))
	case "outcome":
		o, ok := outcomes[text]
		if !ok {
			return fmt.Errorf("%q is no outcome", text)
		}
		r.Outcome = o
	}
	return err
}

// outcomes are all outcomes by name.
var outcomes = func() map[string]recording.Outcome {
	all := map[string]recording.Outcome{}
	for o := 255; o >= 0; o-- {
		if name := recording.Outcome(o).String(); name != "unknown" {
			all[name] = recording.Outcome(o)
		}
	}
	return all
}()

// trace reads a line of package trace.
func (c *csvFile) trace(cells []string, r *Request) error {
	var t trace.Record
	for i, name := range c.names {
		var err error
		switch name {
		case "intended_s":
			t.Intended, err = seconds(cells[i])
		case "start_s":
			t.Start, err = seconds(cells[i])
		case "end_s":
			t.End, err = seconds(cells[i])
		case "status":
			t.Status, err = statusOf(cells[i])
		case "reason":
			t.Reason = cells[i]
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if t.End < t.Start || t.Start < t.Intended {
		return errors.New("want intended_s <= start_s <= end_s")
	}
	r.Record = recorded.FromTrace(t)
	return nil
}

// WriteCSV writes a log as CSV, with all columns.
func (l *Log) WriteCSV(out io.Writer) error {
	w := csv.NewWriter(out)
	_ = w.Write(columns) // Error returns the error
	for i := range l.Requests {
		r := &l.Requests[i]
		cells := []string{
			decimal(r.Intended), decimal(r.Wait), decimal(r.Start), decimal(r.End), "", strconv.Itoa(r.Inflight), r.Class,
			strconv.Itoa(int(r.Tenant)), r.Outcome.String(), strconv.Itoa(int(r.Origin)),
		}
		if r.Deadline != 0 {
			cells[4] = decimal(r.Deadline)
		}
		_ = w.Write(cells)
	}
	w.Flush()
	return w.Error()
}

// decimal writes a time >= 0 in seconds.
func decimal(d time.Duration) string {
	d = max(d, 0)
	return fmt.Sprintf("%d.%09d", d/time.Second, d%time.Second)
}

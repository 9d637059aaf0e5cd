// Package recorded has recordings of requests for the laboratory: what it reads, and what its load generators make.
package recorded

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/sim"
)

// A File is the content of a recording.
type File struct {
	Name    string             // for messages
	Epoch   time.Time          // from which the instants of Records count
	Records []recording.Record // in the order in which they came
	Classes map[uint16]string  // printable names
	Lost    uint64             // requests without a record
	Cut     error              // why the rest of the file is not read; nil if all is
}

// Open reads the file with a name.
func Open(name string) (*File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return Read(f, name)
}

// Read reads a recording to its end, or up to where it is cut off or damaged. A File has at least one record.
func Read(in io.Reader, name string) (*File, error) {
	fail := func(err error) (*File, error) {
		return nil, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "recording: "))
	}
	buffered := bufio.NewReader(in)
	const magic = "weirrec"
	switch begin, err := buffered.Peek(len(magic)); {
	case err == io.EOF && len(begin) == 0:
		return fail(errors.New("the file is empty"))
	case err == nil && string(begin) != magic:
		return fail(errors.New("the file is no recording: weirlab convert makes one of an access log, of what k6 writes, or of CSV"))
	}
	r, err := recording.NewReader(buffered)
	if err != nil {
		return fail(err)
	}
	f := &File{Name: name, Epoch: r.Epoch()}
	for {
		record, err := r.Read()
		if err == nil {
			f.Records = append(f.Records, record)
			continue
		}
		if errors.Is(err, recording.ErrCut) || errors.Is(err, recording.ErrDamaged) {
			f.Cut = err
		} else if err != io.EOF {
			return fail(err)
		}
		break
	}
	if len(f.Records) == 0 {
		return fail(cmp.Or(f.Cut, errors.New("the recording has no requests")))
	}
	f.Classes, f.Lost = r.Names(), r.Lost()
	for number, name := range f.Classes {
		f.Classes[number] = printable(name)
	}
	f.Sort()
	return f, nil
}

// Sort puts the records into the order in which they came.
func (f *File) Sort() {
	slices.SortStableFunc(f.Records, func(a, b recording.Record) int { return cmp.Compare(Came(&a), Came(&b)) })
}

// Note says what of the file is not read; empty if all is.
func (f *File) Note() string {
	if f.Cut == nil {
		return ""
	}
	return fmt.Sprintf("%s: %s: the %d requests before that are read", f.Name, strings.TrimPrefix(f.Cut.Error(), "recording: "), len(f.Records))
}

// Class returns the name of a class, or its number if it has no name.
func (f *File) Class(number uint16) string {
	if name, ok := f.Classes[number]; ok || number == 0 {
		return name
	}
	return strconv.Itoa(int(number))
}

// printable returns a name in which what a terminal may take for a command is escaped, as in a string of Go.
func printable(name string) string {
	var b strings.Builder
	for len(name) > 0 {
		r, n := utf8.DecodeRuneInString(name)
		if strconv.IsPrint(r) && (r != utf8.RuneError || n > 1) {
			b.WriteString(name[:n])
		} else {
			b.WriteString(strings.Trim(strconv.Quote(name[:n]), `"`))
		}
		name = name[n:]
	}
	return b.String()
}

// Calls returns the requests as calls of a simulation, which begins with the first. Requests that a load generator
// has not sent are none.
func (f *File) Calls() (all []sim.Arrival) {
	usual := UsualPatience(f.Records)
	for i := range f.Records {
		r := &f.Records[i]
		if !Sent(r) {
			continue
		}
		at, patience := Came(r), cmp.Or(Patience(r), usual)
		if usual > 0 && !Abandoned(r) { // its caller would have left before its deadline
			patience = min(patience, usual)
		}
		all = append(all, sim.Arrival{At: at - Came(&f.Records[0]), Late: max(at-r.Intended, 0), Class: f.Class(r.Class), Patience: patience})
	}
	return all
}

// UsualPatience returns how long callers wait that leave, if they all have the same time-out; 0 if that is not known.
func UsualPatience(rs []recording.Record) time.Duration {
	const enough = 20
	var seen, later []time.Duration // until a caller left, and until the end of work that a caller had left
	for i := range rs {
		r := &rs[i]
		if !r.Outcome.Worked() || !Abandoned(r) {
			continue
		}
		if d := Patience(r); d > 0 {
			seen = append(seen, d)
		} else {
			later = append(later, r.End-Came(r))
		}
	}
	if n := len(seen); n >= enough {
		slices.Sort(seen)
		if seen[n*9/10] > seen[n/10]+seen[n/10]/20 {
			return 0
		}
		return max(seen[n/2], 1)
	}
	if len(later) < enough {
		return 0
	}
	slices.Sort(later)
	least := later[len(later)/100] // that of the work that ended the soonest after its caller had left
	served, longer := 0, 0
	for i := range rs {
		if r := &rs[i]; r.Outcome.Success() {
			served++
			if r.End-Came(r) > least {
				longer++
			}
		}
	}
	if 50*longer > served {
		return 0
	}
	return max(least, 1)
}

// Came returns the instant at which a request came to the limit or, if there was none, to the service. A load generator
// may have sent it later than it was due.
func Came(r *recording.Record) time.Duration {
	if r.Outcome.Worked() {
		return r.Start - r.Wait
	}
	return r.Intended
}

// Sent reports whether a request came to the service. A load generator with too much in flight sends some not at all.
func Sent(r *recording.Record) bool {
	return r.Outcome != recording.Cancelled || r.Wait > 0
}

// Patience returns how long the caller of a request waits since it came; 0 if that is not known.
func Patience(r *recording.Record) time.Duration {
	switch {
	case r.Outcome == recording.Cancelled, Unseen(r):
		return max(r.End-Came(r), 1) // it left then
	case r.Deadline > 0:
		return max(r.Deadline-Came(r), 1)
	}
	return 0
}

// Known reports whether the work of a request is known from its beginning to its end. That of an error is not: it may have broken off.
func Known(r *recording.Record) bool {
	switch r.Outcome.Outcome() {
	case weir.Success, outcome.Late, outcome.Gone:
		return true
	}
	return false
}

// Unseen reports whether the work of a request may have gone on after its End.
func Unseen(r *recording.Record) bool {
	return r.Outcome.Worked() && outcome.Abandoned(r.Outcome.Outcome())
}

// Abandoned reports whether the caller of a request had left before its end.
func Abandoned(r *recording.Record) bool {
	return r.Outcome == recording.Cancelled || r.Outcome.Worked() && outcome.Wasted(r.Outcome.Outcome())
}

// AtLimit reports whether a request found its limit full: it waited for longer than an admission takes, or was turned
// away at once. Its Inflight is then the limit.
func AtLimit(r *recording.Record) bool {
	if r.Outcome.Worked() {
		return r.Wait > max(time.Millisecond, r.Response()/50)
	}
	reason := r.Outcome.Reason()
	return reason == weir.QueueFull || reason == weir.OverLimit
}

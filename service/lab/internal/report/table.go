package report

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/weir-go/weir/service/internal/table"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// meanings explains the reasons of requests without an answer.
var meanings = map[string]string{
	trace.Timeout:    "no answer within the time-out",
	trace.Refused:    "connection refused",
	trace.Reset:      "connection broken before the end of the answer",
	trace.Unresolved: "no address for the name of the host",
	trace.Untrusted:  "TLS handshake failed",
	trace.Exhausted:  "no more ports, files or buffers on this machine",
	trace.Canceled:   "the run ended first; not counted as failed",
	trace.Unsent:     "not sent: too many requests in flight",
	trace.Failed:     "other errors",
	trace.Sent:       "no answer expected",
}

// line has the rates and the failures so far.
func (r Report) line() string {
	s := fmt.Sprintf("%4.0f s  offered %.1f rps, goodput %.1f rps", r.Elapsed, r.Offered, r.Goodput)
	if r.Failed > 0 {
		s += fmt.Sprintf(", failed %d (%s)", r.Failed, percent(r.FailedShare))
	}
	return s
}

// Table writes the report as text.
func (r Report) Table(out io.Writer) error {
	w := bufio.NewWriter(out)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "offered\t%.2f rps\t%d requests in %.1f s\n", r.Offered, r.Requests, r.Elapsed)
	fmt.Fprintf(tw, "throughput\t%.2f rps\tanswered with success\n", r.Throughput)
	fmt.Fprintf(tw, "goodput\t%.2f rps\tanswered with success and in time\n", r.Goodput)
	fmt.Fprintf(tw, "failed\t%s\t%d requests\n", percent(r.FailedShare), r.Failed)
	if t := r.Traffic; t.Connections > 0 {
		fmt.Fprintf(tw, "traffic\t%s sent\t%s received, %d connections\n", byteSize(t.Sent), byteSize(t.Received), t.Connections)
	}
	fmt.Fprintf(tw, "\nstatus\trequests\tshare\n")
	for _, label := range slices.Sorted(maps.Keys(r.ByStatus)) {
		n := r.ByStatus[label]
		cells := []string{label, strconv.Itoa(n), percent(float64(n) / float64(r.Requests))}
		if why := meanings[label]; why != "" {
			cells = append(cells, why)
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	_ = tw.Flush() // w keeps the error
	fmt.Fprintln(w)
	rows := [][]string{append([]string{"latency"}, heads()...)}
	for _, g := range r.groups() {
		rows = append(rows, append([]string{g.name}, g.latency.cells()...))
	}
	table.Write(w, rows, 0)
	if l, name := r.answered(); l != nil {
		fmt.Fprintf(w, "\nlatency of %s\n", name)
		writeBars(w, l.bars())
	}
	if late := r.late(); late != "" {
		fmt.Fprintf(w, "\n%s\n", late)
	}
	return w.Flush()
}

// heads are the titles of Latency.cells.
func heads() (heads []string) {
	for _, p := range percentiles {
		heads = append(heads, "p"+decimal(p))
	}
	return append(heads, "max", "of")
}

// A group is requests with the same kind of end, or of a run.
type group struct {
	name    string
	color   int      // of plot.Colour
	latency *Latency // nil if there are no requests
}

func (r Report) groups() []group {
	return []group{{"all", colorAll, r.Latency.All}, {"successes", colorSuccess, r.Latency.Successes}, {"rejections", colorRejected, r.Latency.Rejections}}
}

// cells returns the percentiles, the maximum and the count. A percentile of too few
// requests is a dash.
func (l *Latency) cells() (cells []string) {
	if l == nil {
		return append(slices.Repeat([]string{"–"}, len(percentiles)+1), "0")
	}
	for _, p := range percentiles {
		if l.known(p) {
			cells = append(cells, table.Seconds(l.At(p)))
		} else {
			cells = append(cells, "–")
		}
	}
	return append(cells, table.Seconds(l.Max), strconv.FormatInt(l.Count, 10))
}

// writeBars draws a histogram.
func writeBars(w io.Writer, bars []bar) {
	const width = 40
	most, label := int64(1), 0
	for _, b := range bars {
		most = max(most, b.count)
		label = max(label, utf8.RuneCountInString(b.label()))
	}
	for _, b := range bars {
		length := int(math.Ceil(float64(b.count) / float64(most) * width))
		pad := strings.Repeat(" ", label-utf8.RuneCountInString(b.label()))
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  %s%s  %8d  %s", pad, b.label(), b.count, strings.Repeat("█", length)), " "))
	}
}

// label names the range.
func (b bar) label() string { return table.Seconds(b.from) + " – " + table.Seconds(b.to) }

// tooLate is the delay of sending (P99) above which a report warns.
const tooLate = 0.01

// late warns if the client could not send in time.
func (r Report) late() string {
	if r.SendDelay == nil || r.SendDelay.P99 < tooLate {
		return ""
	}
	return fmt.Sprintf("This machine was too busy: 1 %% of the requests were sent %s late or more. Latencies include that delay.", table.Seconds(r.SendDelay.P99))
}

// percent formats a share, with more digits for small ones.
func percent(share float64) string {
	if share > 0 && share < 0.001 {
		return table.Fixed(100*share, 4) + " %"
	}
	return table.Percent(share)
}

func decimal(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// byteSize formats a number of bytes.
func byteSize(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

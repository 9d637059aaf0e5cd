package load

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/weir-go/weir/service/internal/lab/table"
)

// A Report has the results of a run. Rates are per second of the time during which
// requests were sent.
type Report struct {
	Elapsed    float64        `json:"elapsed_seconds"` // time during which requests were sent
	Requests   int            `json:"requests"`        // including unsent ones
	Offered    float64        `json:"offered_rps"`
	Throughput float64        `json:"throughput_rps"` // answered with success
	Goodput    float64        `json:"goodput_rps"`    // the same, within the time-out from the intended start
	ByStatus   map[string]int `json:"by_status"`

	// Latency is from the intended start. Rejections have status 429 or 503. A group
	// without requests is nil.
	Latency struct {
		All        *Latency `json:"all"`
		Successes  *Latency `json:"successes"`
		Rejections *Latency `json:"rejections"`
	} `json:"latency_seconds"`
}

// Latency is a summary in seconds, to three significant digits.
type Latency struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// Table writes the report as text.
func (r Report) Table(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "offered\t%.2f rps\t%d requests in %.1f s\n", r.Offered, r.Requests, r.Elapsed)
	fmt.Fprintf(tw, "throughput\t%.2f rps\tanswered with success\n", r.Throughput)
	fmt.Fprintf(tw, "goodput\t%.2f rps\tanswered with success and in time\n", r.Goodput)
	fmt.Fprintf(tw, "\nstatus\trequests\tshare\n")
	for _, label := range slices.Sorted(maps.Keys(r.ByStatus)) {
		n := r.ByStatus[label]
		fmt.Fprintf(tw, "%s\t%d\t%.1f %%\n", label, n, 100*float64(n)/float64(r.Requests))
	}
	fmt.Fprintf(tw, "\nlatency\tp50\tp95\tp99\tmax\tof\n")
	for _, g := range []struct {
		name string
		l    *Latency
	}{{"all", r.Latency.All}, {"successes", r.Latency.Successes}, {"rejections", r.Latency.Rejections}} {
		if g.l == nil {
			g.l = &Latency{}
		}
		fmt.Fprintf(tw, "%s", g.name)
		for _, seconds := range []float64{g.l.P50, g.l.P95, g.l.P99, g.l.Max} {
			cell := "–"
			if g.l.Count > 0 {
				cell = table.Duration(time.Duration(seconds * float64(time.Second)))
			}
			fmt.Fprintf(tw, "\t%s", cell)
		}
		fmt.Fprintf(tw, "\t%d\n", g.l.Count)
	}
	return tw.Flush()
}

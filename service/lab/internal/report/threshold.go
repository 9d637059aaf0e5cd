package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/service/internal/table"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// Thresholds are bounds on the figures of a run.
type Thresholds struct {
	Latency []Bound  // of the successes
	Failed  *float64 // the most, as a share of all requests but the canceled ones
	Goodput float64  // the least, per second
}

// A Bound is the most that a percentile may be. 100 is the maximum.
type Bound struct {
	Percentile float64
	Most       time.Duration
}

// Check returns what the report does not keep, in sentences. Without a threshold on
// failures, one request at least must succeed.
func (t Thresholds) Check(r Report) (broken []string) {
	judged := r.Requests - r.ByStatus[trace.Canceled]
	if judged > 0 && t.Failed == nil && r.Failed == judged {
		broken = append(broken, "no request succeeded: "+r.commonest())
	}
	if t.Failed != nil && judged > 0 {
		if share := float64(r.Failed) / float64(judged); share > *t.Failed {
			broken = append(broken, fmt.Sprintf("failed = %s: must be <= %s: %s", percent(share), percent(*t.Failed), r.commonest()))
		}
	}
	for _, b := range t.Latency {
		name := "p" + decimal(b.Percentile)
		if b.Percentile == 100 {
			name = "max"
		}
		switch l := r.Latency.Successes; {
		case l == nil:
			broken = append(broken, fmt.Sprintf("%s of successes: there are none: must be <= %v", name, b.Most))
		case l.At(b.Percentile) > b.Most.Seconds()*(1+precision):
			broken = append(broken, fmt.Sprintf("%s of successes = %s: must be <= %v", name, table.Seconds(l.At(b.Percentile)), b.Most))
		}
	}
	if r.Goodput < t.Goodput {
		broken = append(broken, fmt.Sprintf("goodput = %.2f rps: must be >= %v", r.Goodput, t.Goodput))
	}
	return broken
}

// precision of a latency, which a histogram rounds up.
const precision = 0.001

// commonest names the most frequent failure.
func (r Report) commonest() string {
	most := ""
	for label, n := range r.ByStatus {
		word, _, _ := strings.Cut(label, " ")
		status, _ := strconv.Atoi(word) // 0: the label is a reason
		failed := trace.Record{Status: status, Reason: label}.Failed()
		if failed && (n > r.ByStatus[most] || n == r.ByStatus[most] && label < most) {
			most = label
		}
	}
	s := fmt.Sprintf("%d of %d requests: %s", r.ByStatus[most], r.Requests, most)
	if why := meanings[most]; why != "" {
		s += " (" + why + ")"
	}
	return s
}

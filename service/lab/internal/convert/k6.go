package convert

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/recording"
)

// k6 reads the output of k6 run --out json=FILE.
type k6 struct{}

func (k6) missing() []string {
	return []string{"intended start (k6 starts when a virtual user is free: the start is taken)", "wait", "deadline", "tenant", inflight}
}

// timedOutCode is the error_code of k6 for a request that timed out.
const timedOutCode = "1050"

// parse reads a line: a request is a point of http_req_duration, at its end.
func (k6) parse(line []byte, r *Request) error {
	var point struct {
		Metric, Type string
		Data         struct {
			Time  time.Time
			Value float64
			Tags  map[string]string
		}
	}
	if err := json.Unmarshal(line, &point); err != nil {
		return fmt.Errorf("not JSON of k6: %w", err)
	}
	if point.Type != "Point" || point.Metric != "http_req_duration" {
		return errSkip
	}
	d, tags := &point.Data, point.Data.Tags
	end := time.Duration(d.Time.UnixNano())
	if d.Time.Unix() < 0 || d.Time.Unix() > int64(maxInstant/time.Second) || !(d.Value >= 0 && d.Value <= float64(maxSpan/time.Millisecond)) {
		return fmt.Errorf("the point has the time %v and the value %v", d.Time, d.Value)
	}
	r.Intended = max(end-time.Duration(d.Value*float64(time.Millisecond)), 0)
	r.Start, r.End = r.Intended, end
	status, _ := strconv.Atoi(tags["status"])
	switch {
	case tags["error_code"] == timedOutCode:
		r.Outcome = recording.Ended(outcome.TimedOut)
	case status == 0:
		r.Outcome = recording.Ended(weir.Dropped)
	case status == 429 || status == 503:
		r.Outcome, r.Start = recording.Rejected(0), end
	default:
		r.Outcome = answered(status)
	}
	path := tags["name"]
	if u, err := url.Parse(path); err == nil && u.Host != "" {
		path = u.EscapedPath()
		if path == "" {
			path = "/"
		}
	} else if path != "" && path[0] != '/' { // a name that the script gives
		r.Class = tags["method"] + " " + path
		return nil
	}
	r.Class = class(tags["method"], path)
	return nil
}

package convert

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/recording"
)

// DefaultEnvoy is the default format of Envoy's access logs.
const DefaultEnvoy = `[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%"`

var envoyOperator = regexp.MustCompile(`%([A-Z_0-9]+(?:\([^)%]*(?:%[^)%]*)*\))?)(?::\d+)?%`)

type envoy struct{ *layout }

// Names of operators in a format.
const (
	envoyStart    = "START_TIME"
	envoyPrecise  = "START_TIME(%s.%6f)"
	envoyNanos    = "START_TIME(%s.%9f)"
	envoyDuration = "DURATION"
	envoyUpstream = "RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)"
)

func newEnvoy(format string) (parser, error) {
	l, err := newLayout(format, envoyOperator)
	if err != nil {
		return nil, err
	}
	for _, names := range [][]string{{envoyStart, envoyPrecise, envoyNanos}, {envoyDuration}, {"RESPONSE_CODE"}} {
		if l.has(names...) == "" {
			return nil, fmt.Errorf("the log format has no %%%s%%", strings.Join(names, "% and no %"))
		}
	}
	return envoy{l}, nil
}

func (e envoy) missing() []string {
	all := []string{"wait", "deadline", "tenant", inflight, "times below a millisecond"}
	if e.has("RESPONSE_FLAGS") == "" {
		all = append(all, "why requests failed (no %RESPONSE_FLAGS%)")
	}
	if e.has(envoyUpstream) == "" {
		all = append(all, "time of the work alone (no %"+envoyUpstream+"%: it has the transfer to the client)")
	}
	return all
}

// parse reads a line.
func (e envoy) parse(line []byte, r *Request) error {
	var start, took time.Duration
	var method, path, route, flags string
	work := time.Duration(-1)
	status := 0
	err := e.read(line, func(name, value string) (err error) {
		switch name {
		case envoyStart:
			start, err = instant(value, time.RFC3339Nano)
		case envoyPrecise, envoyNanos:
			start, err = seconds(value)
		case envoyDuration:
			took, err = milliseconds(value)
		case envoyUpstream:
			if value != "-" {
				work, err = milliseconds(value)
			}
		case "RESPONSE_CODE":
			status, err = statusOf(value)
		case "RESPONSE_FLAGS":
			flags = value
		case "ROUTE_NAME":
			route = value
		case "REQ(:METHOD)":
			method = value
		case "REQ(:PATH)", "REQ(X-ENVOY-ORIGINAL-PATH?:PATH)":
			path = value
		}
		return err
	})
	if err != nil {
		return err
	}
	r.Intended, r.Start, r.End = start, start, start+took
	r.Outcome = envoyOutcome(status, flags)
	if !r.Outcome.Worked() {
		r.Start = r.End
	} else if work >= 0 {
		r.End = r.Start + min(work, took)
	}
	if r.Class = class(method, path); route != "" && route != "-" {
		r.Class = route
	}
	return nil
}

// envoyOutcome returns the outcome of a request by its status and flags.
func envoyOutcome(status int, flags string) recording.Outcome {
	for flag := range strings.SplitSeq(flags, ",") {
		switch flag {
		case "RL", "UO", "OM", "RLSE", "DO":
			return recording.Rejected(0)
		case "DC", "DR":
			return recording.Ended(outcome.Left)
		case "UT", "SI", "DT", "UMSDR":
			return recording.Ended(outcome.TimedOut)
		case "UH", "UF", "UC", "LR", "UR", "URX", "LH":
			return recording.Ended(weir.Dropped)
		}
	}
	if status == 429 {
		return recording.Rejected(0)
	}
	return answered(status)
}

func milliseconds(text string) (time.Duration, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= float64(maxSpan/time.Millisecond)) {
		return 0, fmt.Errorf("%q is not a number of milliseconds", text)
	}
	return time.Duration(v * float64(time.Millisecond)), nil
}

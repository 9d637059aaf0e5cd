package report_test

// A client that could not send in time counts from when it should have.
func TestLatencyIsFromTheIntendedStart(t *testing.T) {
	c := report.NewCollector(2 * s)
	c.Add(trace.Record{Intended: s, Start: 3 * s, End: 4 * s, Status: 200})
	c.Add(trace.Record{Intended: 2 * s, Start: 3 * s, End: 4 * s, Status: 200})
	r := c.Report(4 * s)
	near(t, "max", r.Latency.Successes.Max, 3)
	near(t, "throughput", r.Throughput, 0.5)
	near(t, "goodput", r.Goodput, 0.25) // the first was too late
}

func TestCollectorIsBounded(t *testing.T) {
	c := report.NewCollector(s)
	for i := range 1000 {
		c.Add(trace.Record{Status: 503, Reason: fmt.Sprint("reason ", i), End: -s})
	}
	r := c.Report(s)
	if len(r.ByStatus) != 51 || r.ByStatus["other"] != 950 {
		t.Errorf("%d labels, %d others: want 50 and 950", len(r.ByStatus), r.ByStatus["other"])
	}
	if r := report.NewCollector(s).Report(0); r.Offered != 0 || r.Latency.All != nil {
		t.Errorf("%+v: of nothing", r)
	}
}

func TestReport(t *testing.T) {
	c := report.NewCollector(3 * s)
	for i := range 100 {
		c.Add(trace.Record{End: time.Duration(i+1) * 10 * time.Millisecond, Status: 200})
	}
	c.Add(trace.Record{End: 300 * time.Microsecond, Status: 503, Reason: "queue_full"})
	r := c.Report(20 * s)
	var b strings.Builder
	if err := r.Table(&b); err != nil {
		t.Fatal(err)
	}
	const want = `offered     5.05 rps  101 requests in 20.0 s
throughput  5.00 rps  answered with success
goodput     5.00 rps  answered with success and in time

status          requests  share
200             100       99.0 %
503 queue_full  1         1.0 %

latency     p50    p95      p99      max    of
all         500ms  950ms    990ms    1s     101
successes   500ms  950ms    990ms    1s     100
rejections  300µs  300µs  300µs  300µs  1
`
	if got := b.String(); strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{`"offered_rps":5.05`, `"goodput_rps":5`, `"by_status":{"200":100,"503 queue_full":1}`, `"rejections":{"count":1`} {
		if !strings.Contains(string(data), field) {
			t.Errorf("%s: want %s", data, field)
		}
	}
}

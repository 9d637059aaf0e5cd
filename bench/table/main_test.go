package main

import (
	"strings"
	"testing"
)

const header = "goos: linux\npkg: github.com/weir-go/weir/bench\n"

func TestTable(t *testing.T) {
	for name, tt := range map[string]struct {
		in   string
		want string // after the copy of the input; space squeezed
	}{
		"medians, and ratios to x/time": {`
BenchmarkRate/Allow/weir         	 100	  40 ns/op	 0 B/op	 0 allocs/op
BenchmarkRate/Allow/weir         	 100	  30.5 ns/op	 0 B/op	 0 allocs/op
BenchmarkRate/Allow/weir         	 100	  900 ns/op	 0 B/op	 0 allocs/op
BenchmarkRate/Allow/weir-2       	 100	  10 ns/op	 0 B/op	 0 allocs/op
BenchmarkRate/Allow/weir-2       	 100	  20 ns/op	 0 B/op	 1 allocs/op
BenchmarkRate/Allow/xtime        	 100	  80 ns/op	 64 B/op	 1 allocs/op
BenchmarkRate/Allow/xtime-2      	 100	  60 ns/op	 0 B/op	 0 allocs/op
BenchmarkRate/Allow/go-limiter-2 	 100	  20 ns/op	 64 B/op	 1 allocs/op
`, `
Rate/Allow ns/op, 1 CPU /xtime ns/op, 2 CPUs /xtime allocs/op
weir 40.0 0.50 15.0 0.25 0
xtime 80.0 1.00 60.0 1.00 1
go-limiter - - 20.0 0.33 1
`},
		"without x/time, the best peer; floors are none": {`
BenchmarkKeyed/one/weir 	 100	  50 ns/op
BenchmarkKeyed/one/slow 	 100	  200 ns/op
BenchmarkKeyed/one/shard64 	 100	  100 ns/op
BenchmarkKeyed/one/floor-clock 	 100	  25 ns/op
`, `
Keyed/one ns/op, 1 CPU /best peer allocs/op
weir 50.0 0.50 -
slow 200.0 2.00 -
shard64 100.0 1.00 -
floor-clock 25.0 0.25 -
`},
		"nobody to compare with": {`
BenchmarkRate/Take/weir-8 	 100	  50 ns/op
BenchmarkRate/Take/weir-2 	 100	  60 ns/op
`, `
Rate/Take ns/op, 2 CPUs /best peer ns/op, 8 CPUs /best peer allocs/op
weir 60.0 - 50.0 - -
`},
		"another unit than time": {`
BenchmarkMemory/weir 	 1	  20.5 B/key	 100 B/op	 7 allocs/op
BenchmarkMemory/map 	 1	  82 B/key	 100 B/op	 9 allocs/op
`, `
Memory B/key, 1 CPU /best peer allocs/op
weir 20.5 0.25 7
map 82.0 1.00 9
`},
		"cases in order of appearance": {`
BenchmarkB/million/x 	 1	 4 ns/op
BenchmarkA 	 1	 2 ns/op
BenchmarkB/one/x 	 1	 3 ns/op
BenchmarkB/million/y 	 1	 8 ns/op
`, `
B/million ns/op, 1 CPU /best peer allocs/op
x 4.0 1.00 -
y 8.0 2.00 -

ns/op, 1 CPU /best peer allocs/op
A 2.0 1.00 -

B/one ns/op, 1 CPU /best peer allocs/op
x 3.0 1.00 -
`},
	} {
		t.Run(name, func(t *testing.T) {
			in := header + tt.in + "PASS\nok  \tgithub.com/weir-go/weir/bench\t1.0s\n"
			var out strings.Builder
			if err := run(strings.NewReader(in), &out); err != nil {
				t.Fatal(err)
			}
			got, ok := strings.CutPrefix(out.String(), in)
			if !ok {
				t.Fatalf("does not begin with what it read:\n%s", got)
			}
			if got := squeezed(got); got != tt.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tt.want)
			}
		})
	}
}

// squeezed has one space where there are several, and none around lines.
func squeezed(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	return strings.Join(lines, "\n")
}

func TestFailure(t *testing.T) {
	const result, ok = "BenchmarkA/x 	 1	 4 ns/op\n", "ok  \tbench\t1.0s\n"
	for name, in := range map[string]string{
		"a benchmark":       result + "--- FAIL: BenchmarkA/y\n" + ok,
		"a package":         result + ok + "FAIL\tother [build failed]\n",
		"killed in between": result,
		"no benchmark":      "PASS\n" + ok,
		"nothing":           "",
	} {
		var out strings.Builder
		if run(strings.NewReader(in), &out) == nil {
			t.Errorf("%s: no error", name)
		}
		if !strings.HasPrefix(out.String(), in) {
			t.Errorf("%s: the output is not passed on: %q", name, out.String())
		}
	}
}

package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The benchmark prints a row for each load, and ends. With a rate that is never reached, all
// requests are allowed; with a rate of nothing, none is.
func TestServeBenchmark(t *testing.T) {
	for args, share := range map[string]string{
		"-m 1000000000": "100.0 %",
		"--rules " + file(t, "rules.yaml", "rules: [{glob: 'benchmark-*', rate: 0/s}]"): "0.0 %",
	} {
		code, stdout, stderr := weir(t, append([]string{"serve", "--benchmark", "--benchmark-time", "10ms"}, strings.Fields(args)...)...)
		rows := regexp.MustCompile(`(?m)^ *(\d+) +(\d+) +(\d+) +(\S+) +(.*)$`).FindAllStringSubmatch(stdout, -1)
		if code != 0 || stderr != "" || len(rows) != 6 && len(rows) != 9 || !strings.Contains(stdout, "GOMAXPROCS=") {
			t.Fatalf("%s: %d, %s, %s", args, code, stdout, stderr)
		}
		for _, row := range rows {
			if n, err := strconv.Atoi(row[3]); err != nil || n <= 0 || row[5] != share {
				t.Errorf("%s: %q: want decisions, and %s allowed", args, row[0], share)
			}
		}
	}
}

package pressure

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// machine is the pressure of the whole machine.
const machine = "/proc/pressure/cpu"

// find returns the file to read, with its first reading.
func find(given string) (file string, stalled time.Duration, err error) {
	candidates := []string{given}
	if given == "" {
		candidates = ofProcess()
	}
	var all []error
	for _, file := range candidates {
		if stalled, err = readFile(file); err == nil {
			return file, stalled, nil
		}
		all = append(all, err)
	}
	return "", 0, fmt.Errorf("pressure: cannot read the pressure of the processor, which needs Linux with pressure stall information (psi=1): %w", errors.Join(all...))
}

// ofProcess returns the files for this process, the narrowest first.
func ofProcess() []string {
	candidates := []string{"/sys/fs/cgroup/cpu.pressure", machine}
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return candidates
	}
	for line := range strings.Lines(string(text)) {
		// 0::PATH is the cgroup of version 2. In a container, it may be / itself.
		if cgroup, ok := strings.CutPrefix(strings.TrimSpace(line), "0::/"); ok && cgroup != "" {
			return append([]string{path.Join("/sys/fs/cgroup", cgroup, "cpu.pressure")}, candidates...)
		}
	}
	return candidates
}

func readFile(file string) (time.Duration, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err // has the path
	}
	stalled, ok := parse(string(text))
	if !ok {
		return 0, fmt.Errorf("%s: no line \"some … total=MICROSECONDS\"", file)
	}
	return stalled, nil
}

// parse returns the time in which some work waited, from a line such as
//
//	some avg10=35.49 avg60=22.67 avg300=28.40 total=6653651938
func parse(text string) (time.Duration, bool) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "some" {
			continue
		}
		for _, f := range fields[1:] {
			if total, ok := strings.CutPrefix(f, "total="); ok {
				µs, err := strconv.ParseInt(total, 10, 64)
				const most = int64(1<<63-1) / int64(time.Microsecond)
				return time.Duration(µs) * time.Microsecond, err == nil && µs >= 0 && µs <= most
			}
		}
	}
	return 0, false
}

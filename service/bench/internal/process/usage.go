package process

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPU returns the processor time that the process and its children have used.
func (p *Process) CPU() (sum time.Duration, err error) {
	for _, pid := range append(children(p.cmd.Process.Pid), p.cmd.Process.Pid) {
		var used unix.Timespec
		// The clock of another process, as clock_getcpuclockid(3) computes it on Linux.
		if err := unix.ClockGettime(int32(^pid<<3|2), &used); err != nil {
			return 0, fmt.Errorf("clock of process %d: %w", pid, err)
		}
		sum += time.Duration(used.Nano())
	}
	return sum, nil
}

// children returns the processes that a process has started.
func children(pid int) (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if fields[1] == strconv.Itoa(pid) {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, child)
		}
	}
	return pids
}

// Resident returns the memory of the process that is resident, in bytes.
func (p *Process) Resident() (int64, error) { return p.status("VmRSS") }

// Peak returns the most memory that was resident at a time, in bytes.
func (p *Process) Peak() (int64, error) { return p.status("VmHWM") }

// status returns a size of proc(5)'s status, in bytes.
func (p *Process) status(name string) (bytes int64, err error) {
	f, err := os.Open(p.proc("status"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+":"); ok {
			_, err := fmt.Sscan(value, &bytes)
			return bytes << 10, err
		}
	}
	return 0, fmt.Errorf("%s has no %s", f.Name(), name)
}

// IO returns the bytes that the process has read and written, by all system calls.
func (p *Process) IO() (read, written int, err error) {
	calls, err := os.ReadFile(p.proc("io"))
	if err == nil {
		_, err = fmt.Sscanf(string(calls), "rchar: %d\nwchar: %d", &read, &written)
	}
	return read, written, err
}

func (p *Process) proc(file string) string {
	return fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, file)
}

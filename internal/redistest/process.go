package redistest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// instanceVariable is set in the environment of instances.
const instanceVariable = "REDISTEST_INSTANCE"

// An Instance is a process of its own that runs one test of the test program. It reports by
// lines.
type Instance struct {
	Killed time.Time // just before Kill

	cmd   *exec.Cmd
	group sync.WaitGroup
	lines []string // read when the process has ended
}

// StartInstance starts an Instance that runs a test with a value, which the test gets by
// InstanceOf.
func StartInstance(t testing.TB, test, value string) *Instance {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &Instance{cmd: exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.timeout=0")}
	p.cmd.Env = append(os.Environ(), instanceVariable+"="+value)
	p.cmd.ExtraFiles = []*os.File{write}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	p.group.Go(func() {
		defer read.Close()
		for lines := bufio.NewScanner(read); lines.Scan(); {
			p.lines = append(p.lines, lines.Text())
		}
	})
	t.Cleanup(func() { p.Kill() })
	return p
}

// Kill ends the process at once, as kill -9 does, and returns its lines.
func (p *Instance) Kill() []string {
	if p.cmd.ProcessState == nil {
		p.Killed = time.Now()
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.group.Wait()
	}
	return p.lines
}

// InstanceOf returns the value that StartInstance was given, and a function that reports a
// line. It skips a test that does not run in an Instance.
func InstanceOf(t testing.TB) (value string, report func(format string, args ...any)) {
	t.Helper()
	value, ok := os.LookupEnv(instanceVariable)
	if !ok {
		t.Skip("runs in processes that other tests start")
	}
	var mu sync.Mutex // of the pipe
	pipe := os.NewFile(3, "report")
	return value, func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		if _, err := fmt.Fprintf(pipe, format+"\n", args...); err != nil {
			os.Exit(1) // the test that started the process has ended
		}
	}
}

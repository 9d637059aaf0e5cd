//go:build system

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// mounted is set in the process of TestServeStateDisk that may mount.
const mounted = "TEST_MOUNTED"

const needMounts = "The test needs a user namespace in which it may mount: allow them with sysctl user.max_user_namespaces=1000 or, in a container, with --cap-add SYS_ADMIN."

// A disk that becomes read-only, or full, while the server runs. The test runs itself again
// in a process that may mount.
func TestServeStateDisk(t *testing.T) {
	if os.Getenv(mounted) == "" {
		run := func(attr *syscall.SysProcAttr) ([]byte, error) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestServeStateDisk$", "-test.v")
			cmd.Env, cmd.SysProcAttr = append(os.Environ(), mounted+"=yes"), attr
			return cmd.CombinedOutput()
		}
		out, err := run(&syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		})
		if errors.As(err, new(*os.PathError)) { // no user namespaces: root may do without
			out, err = run(&syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS})
		}
		if err != nil {
			t.Errorf("%v: %s%s", err, out, needMounts)
		}
		return
	}
	for _, row := range []struct {
		what        string
		begin, mend func(state string) error
	}{
		{"read-only", func(state string) error {
			dir := filepath.Dir(state)
			return errors.Join(
				syscall.Mount(dir, dir, "", syscall.MS_BIND, ""),
				syscall.Mount("", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
		}, func(state string) error { return syscall.Unmount(filepath.Dir(state), 0) }},
		{"full", func(state string) error {
			err := os.WriteFile(state+".other", make([]byte, 1<<20), 0o600)
			if !errors.Is(err, syscall.ENOSPC) {
				return errors.New("the disk is not full")
			}
			return nil
		}, func(state string) error { return os.Remove(state + ".other") }},
	} {
		t.Run(row.what, func(t *testing.T) {
			dir := t.TempDir()
			if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=128k"); err != nil {
				t.Fatalf("cannot mount a tmpfs: %v", err)
			}
			defer func() { fatal(t, syscall.Unmount(dir, 0)) }()
			outlives(t, filepath.Join(dir, "state"), row.begin, row.mend)
		})
	}
}

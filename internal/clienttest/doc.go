// Package clienttest is tests only: clients that others wrote, curl, hey, k6 and
// Chromium, ask servers behind httplimit, over loopback. Where one of them is
// missing, its tests fail; make test installs them.
package clienttest

//go:build unix

package soak

import "syscall"

// freeze stops the child as it is; thaw lets it go on as if nothing had happened.
func (c *child) freeze() error { return c.cmd.Process.Signal(syscall.SIGSTOP) }
func (c *child) thaw() error   { return c.cmd.Process.Signal(syscall.SIGCONT) }

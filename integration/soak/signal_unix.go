//go:build unix

package main

import "syscall"

// freeze stops the child with SIGSTOP; thaw continues it.
func (c *child) freeze() error { return c.cmd.Process.Signal(syscall.SIGSTOP) }
func (c *child) thaw() error   { return c.cmd.Process.Signal(syscall.SIGCONT) }

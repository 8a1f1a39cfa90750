//go:build !unix

package main

import "errors"

var errNoFreeze = errors.New("this system cannot stop a process and let it go on")

func (c *child) freeze() error { return errNoFreeze }
func (c *child) thaw() error   { return errNoFreeze }

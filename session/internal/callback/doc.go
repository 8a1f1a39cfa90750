// Package callback keeps the functions to call when a task that another program runs is cancelled, and calls each once.
package callback

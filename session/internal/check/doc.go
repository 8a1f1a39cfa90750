// Package check refuses requests that a session cannot take: by its status, by their form, and by the limits of what a session
// keeps.
package check

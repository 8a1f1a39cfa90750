// Package quota counts the open sessions of each owner and the bytes that they stored, and refuses more above the limits.
package quota

// The pages there are: each makes its elements once and then fills them at every poll.

import { activity } from "/activity.js";
import { instances } from "/instances.js";
import { parameters } from "/parameters.js";
import { reports } from "/reports.js";
import { sessions } from "/sessions.js";
import { sql } from "/sql.js";

export const PAGES = [
  { name: "activity", title: "Activity", every: 2000, make: activity },
  { name: "instances", title: "Instances", every: 3000, make: instances },
  { name: "sql", title: "SQL", every: 5000, make: sql },
  { name: "sessions", title: "Sessions", every: 2000, make: sessions },
  { name: "reports", title: "Reports", every: 10000, make: reports },
  { name: "parameters", title: "Parameters", every: 15000, make: parameters },
];
